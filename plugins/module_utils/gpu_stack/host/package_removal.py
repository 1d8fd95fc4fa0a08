"""Removes the packages that this program installed; refuses if apt would change others."""

from __future__ import annotations

from .. import receipt
from ..type_checking import TYPE_CHECKING
from . import apt_commands, apt_removal, mapping
from .context import Context

if TYPE_CHECKING:
    from typing import Any


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
        ledgers = (mapping.of(context.read(path)) or {}).get("packages")
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
    apt_removal.refuse_others(names, f", or let {component}_state be present", force=True)
    return names


def remove(names: list[str], packages: Ledger, wait: int) -> list[str]:
    """Removes packages, not their configuration files; releases the holds of those that stay."""
    if names:
        apt_removal.remove(names, wait, force=True)
    released = sorted(set(packages.theirs) & apt_commands.held())
    if released:
        apt_commands.run(["apt-mark", "unhold", *released], wait)
    return released
