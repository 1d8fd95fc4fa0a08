"""Removes the packages that this program installed; refuses if apt would change others."""

from __future__ import annotations

import json
import re

from .. import receipt
from ..type_checking import TYPE_CHECKING
from . import apt_commands
from .apt_commands import RefusalError
from .context import Context

if TYPE_CHECKING:
    from typing import Any

COMMAND = (
    "apt-get",
    "remove",
    "--allow-change-held-packages",
    "-oAPT::Get::AutomaticRemove=false",
)
TOUCHED = re.compile(r"^(?:Remv|Inst) ([^ :]+)", re.M)
NEEDS = "${Package} needs ${Pre-Depends} ${Depends}\\n"
VERSION = re.compile(r" \([^)]*\)")


class Ledger:
    """The packages of a component. theirs: installed before the first run; they stay."""

    def __init__(self, removable: list[str], theirs: list[str]) -> None:
        self.removable = removable
        self.theirs = theirs


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Removes the packages; returns the module's result. Raises RefusalError."""
    context = Context()
    packages = ledger(context, params["component"], list(params["packages"]))
    names = look(context, params["component"], packages)
    released = [] if check_mode else remove(names, packages, params["wait"])
    result = {"changed": bool(names or released), "removed": names}
    if check_mode and names:
        result["msg"] = f"Would remove {' '.join(names)}"
    return dict(result, removable=packages.removable)


def ledger(context: Context, component: str, names: list[str]) -> Ledger:
    """The ledger from the mark of an unfinished run, else from the receipt.

    If neither has the component, all of `names`, which its role installs, are removable.
    """
    entry: dict[str, Any] = {}
    for path in (receipt.UNFINISHED, receipt.PATH):
        try:
            note = json.loads(context.read(path) or "")
        except ValueError:  # truncated
            continue
        ledgers = note.get("packages") if isinstance(note, dict) else None
        entry = (ledgers or {}).get(component) or {}
        if entry:
            break
    theirs = sorted(entry.get("theirs") or [])
    ours = set(entry.get("ours") or []) | set(names)
    return Ledger(sorted(ours - set(theirs)), theirs)


def look(context: Context, component: str, packages: Ledger) -> list[str]:
    """The removable packages that are installed; RefusalError if apt would change others."""
    names = [name for name in packages.removable if name in context.packages]
    if not names:
        return []
    answer = apt_commands.run([*COMMAND, "--simulate", *names])
    if answer.rc != 0:
        words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
        raise RefusalError(f"apt cannot remove {', '.join(names)}: {words}")
    others = sorted(set(TOUCHED.findall(answer.out)) - set(names))
    if others:
        needs = apt_commands.run(["dpkg-query", "--show", "--showformat", NEEDS, *others])
        reasons = ". ".join(VERSION.sub("", line) for line in needs.out.splitlines())
        raise RefusalError(
            f"Nothing was removed: apt would change {', '.join(others)} as well, which this role"
            f" did not install. {reasons}. Remove them by hand if nobody needs them, or let"
            f" {component}_state be present."
        )
    return names


def remove(names: list[str], packages: Ledger, wait: int) -> list[str]:
    """Removes packages, not their configuration files; releases the holds of those that stay."""
    if names:
        answer = apt_commands.run(
            [*COMMAND, "--yes", apt_commands.lock_timeout(wait), *names], wait
        )
        if answer.rc != 0:
            words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
            raise RefusalError(f"apt could not remove the packages: {words} Run again.")
    released = sorted(set(packages.theirs) & apt_commands.held())
    if released:
        apt_commands.run(["apt-mark", "unhold", *released], wait)
    return released
