"""Finishes the work of an interrupted dpkg: after a killed run, a full disk, a power cut."""

from __future__ import annotations

import os
import re

from ..type_checking import TYPE_CHECKING
from . import apt_commands, dpkg
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

FLAGS = "${db:Status-Eflag} ${db:Status-Status} ${Package}\\n"
STATES = "${db:Status-Abbrev} ${Package}\\n"
# Half-installed, unpacked, half-configured, waiting for a trigger; or to be installed again.
UNFINISHED = re.compile(r"^(?:.[HUFWt]|..R)")
# From dkms 3 on a module that can't be built fails the packages of the kernel and its headers.
KERNEL = re.compile(r"^.[FU] +linux-(?:headers|image)-")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    unfinished = look()
    if unfinished and not check_mode:
        finish(set(params["ours"]), set(params["tolerated"]), params["kernels"], params["wait"])
    return {"changed": unfinished, "unfinished": unfinished}


def look() -> bool:
    """Whether dpkg has left something half way: a package, or its journal."""
    if apt_commands.run(["dpkg", "--audit"]).out:
        return True
    try:
        return any(name.isdigit() for name in os.listdir(dpkg.UPDATES))
    except OSError:
        return False


def finish(ours: set[str], tolerated: set[str], kernels: bool, wait: int) -> None:
    """Finishes it as far as dpkg and apt can; RefusalError if another's package is broken.

    Later steps deal with what is left of `ours` and `tolerated`, and with `kernels` of the kernel's
    packages.
    """
    cut = _cut_off(ours)
    if cut:
        words = ["dpkg", "--force-remove-reinstreq", "--force-depends", "--remove"]
        answer = apt_commands.run([*words, *cut], wait)
        if answer.rc != 0:
            raise RefusalError(f"dpkg cannot remove {', '.join(cut)}: {answer.err.strip()}")
    words = ["dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"]
    configured = apt_commands.run(words, wait)
    if configured.rc == 0:
        return
    if apt_commands.run(fix_broken(wait), wait).rc == 0:
        return
    states = apt_commands.run(["dpkg-query", "--show", "--showformat", STATES])
    foreign = broken(states.out, kernels) - ours - tolerated
    if foreign:
        raise RefusalError(
            f"dpkg cannot finish {', '.join(sorted(foreign))}. Repair that first"
            ' ("dpkg --configure -a" shows why), then run again.'
            f" dpkg said: {configured.err.strip()}"
        )


def fix_broken(wait: int) -> list[str]:
    """The command that installs what unfinished packages depend on, and removes none."""
    return [
        *("apt-get", "--yes", "--no-install-recommends", "--no-remove", "--ignore-hold"),
        *apt_commands.SETTINGS,
        *(apt_commands.lock_timeout(wait), "--fix-broken", "install"),
    ]


def _cut_off(ours: set[str]) -> list[str]:
    """Those of `ours` that were cut off at the end of their unpacking.

    dpkg refuses to configure such a package, and apt does not unpack it again; it does where even
    the unpacking was left half way. Its configuration files stay.
    """
    answer = apt_commands.run(["dpkg-query", "--show", "--showformat", FLAGS])
    pattern = r"^reinstreq unpacked (\S+)$"
    return sorted(ours & set(re.findall(pattern, answer.out, re.M)))


def broken(states: str, kernels: bool) -> set[str]:
    """Names of unfinished packages in dpkg-query's answer."""
    return {
        line.split()[-1]
        for line in states.splitlines()
        if UNFINISHED.match(line) and not (kernels and KERNEL.match(line))
    }
