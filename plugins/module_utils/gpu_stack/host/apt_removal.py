"""Takes installed packages away by apt; refuses if apt would change others with them."""

from __future__ import annotations

import re

from . import apt_commands
from .refusal import RefusalError

HELD_TOO = "--allow-change-held-packages"
# The names of packages in what a simulation printed.
REMOVED = re.compile(r"^(?:Remv|Purg) ([^\s:]+)", re.M)
TOUCHED = re.compile(r"^(?:Remv|Purg|Inst) ([^\s:]+)", re.M)
NEEDS = "${Package} needs ${Pre-Depends} ${Depends}\\n"
VERSION = re.compile(r" \([^)]*\)")


def refuse_others(names: list[str], otherwise: str = "", *, force: bool = False) -> None:
    """RefusalError if apt would change another package than `names`, which are installed.

    force: a package that is held goes too.
    otherwise: what a person may do instead, as ", or do without".
    """
    answer = apt_commands.run([*_command(force), "--simulate", *names])
    if answer.rc != 0:
        words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
        raise RefusalError(f"apt cannot remove {', '.join(names)}: {words}")
    others = sorted(set(TOUCHED.findall(answer.out)) - set(names))
    if others:
        needs = apt_commands.run(["dpkg-query", "--show", "--showformat", NEEDS, *others])
        reasons = ". ".join(VERSION.sub("", line) for line in needs.out.splitlines())
        raise RefusalError(
            f"Nothing was removed: apt would change {', '.join(others)} as well, which this role"
            f" did not install. {reasons}. Remove them by hand if nobody needs them{otherwise}."
        )


def remove(names: list[str], wait: int, *, force: bool = False) -> None:
    """Removes packages, not their configuration files; RefusalError with apt's words."""
    command = [*_command(force), "--yes", apt_commands.lock_timeout(wait), *names]
    answer = apt_commands.run(command, wait)
    if answer.rc != 0:
        words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
        raise RefusalError(f"apt could not remove the packages: {words} Run again.")


def _command(force: bool) -> list[str]:
    return ["apt-get", "remove", *([HELD_TOO] if force else []), *apt_commands.SETTINGS]
