"""How apt logs in to a mirror: by a file that only root can read, so that sources have no password.

Without that file every `apt-get update` fails with 401, also long after the run. The look knows the
mirror's address and not the password: it compares the file's mode and address, so it does not see
that only the password was changed in the inventory.
"""

from __future__ import annotations

from ..change import change
from ..type_checking import TYPE_CHECKING
from . import apt, file_state

if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Changes
    from .context import Context

DIRECTORY = "/etc/apt/auth.conf.d/"
SOURCES = "/etc/apt/sources.list.d/"
MODE = 0o600


def machine(address: str) -> str | None:
    """The word behind `machine` for an address, as the role apt writes it; None without a login."""
    bare = apt.bare(address)
    if bare == address:
        return None
    # Without https apt wants to be told that the password may be sent (apt_auth.conf(5)).
    return bare[len("https://") :] if bare.startswith("https://") else bare


def look(context: Context, addresses: dict[str, Any]) -> dict[str, str]:
    """{path: fault} of the files that are missing or wrong; `addresses` are {name: address}."""
    faults = {}
    for name in sorted(addresses):
        path, place = DIRECTORY + name + ".conf", machine(addresses[name] or "")
        if place is None:
            continue
        places = [
            line.split()[1:2]
            for line in (context.read(path) or "").splitlines()
            if line.startswith("machine ") and " password " in line
        ]
        if context.lstat(path) is None:
            faults[path] = "absent"
        else:
            fault = file_state.fault(context, path, MODE)
            if fault is not None or places != [[place]]:
                faults[path] = fault or "other content"
    return faults


def of_mirror(name: str) -> tuple[str, str]:
    """Paths of a mirror's source and of its login file."""
    return SOURCES + name + ".sources", DIRECTORY + name + ".conf"


def left(context: Context, name: str, address: str | None) -> list[str]:
    """Those of `of_mirror` that are there though no mirror is wished for."""
    return [] if address else [path for path in of_mirror(name) if context.lstat(path) is not None]


def left_changes(name: str, paths: list[str]) -> Changes:
    """The changes of a component for what `left` found."""
    reason = "no mirror is wished for any more"
    return [change(name, path, "present", None, reason) for path in paths]


def differ(name: str, faults: dict[str, str]) -> Changes:
    """The changes of a component for what `look` found."""
    reason = "apt logs in to the mirror by it"
    return [change(name, path, faults[path], "as written", reason) for path in sorted(faults)]
