"""Installs packages by their names, at whatever version apt offers, or takes just these away.

For tools and what belongs to a kernel; a component's own packages have exact versions
(`package_install`). ansible.builtin.apt would install python3-apt first, and for that fetch the
lists of every source.
"""

from __future__ import annotations

import contextlib
import fnmatch

from ..type_checking import TYPE_CHECKING
from . import apt_commands, apt_removal, service_starts
from .context import Context

if TYPE_CHECKING:
    from typing import Any


def look(context: Context, specs: list[str]) -> list[str]:
    """Those of `specs` that are not installed: name, name=version or name=beginning*."""
    return [spec for spec in specs if not _is_installed(context, *spec.partition("=")[::2])]


def _is_installed(context: Context, name: str, version: str) -> bool:
    package = context.packages.get(name, {})
    if package.get("status") != "installed" or package["want"] not in ("install", "hold"):
        return False
    return fnmatch.fnmatchcase(package["version"], version or "*")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; RefusalError with apt's words.

    In check mode apt only simulates it.
    """
    if params["state"] == "absent":
        return _taken(params, check_mode)
    lacking = look(Context(), params["names"])
    if lacking:
        install = apt_commands.INSTALL if params["force"] else apt_commands.UNFORCED_INSTALL
        command = [*install, apt_commands.lock_timeout(params["wait"]), "install", *lacking]
        quiet = not (params["start"] or check_mode)
        with service_starts.none() if quiet else contextlib.nullcontext():
            words = ["--simulate"] if check_mode else []
            apt_commands.install(", ".join(lacking), [*command, *words], params["wait"])
    return {"changed": bool(lacking), "packages": lacking}


def _taken(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Removes those that are there; RefusalError where apt would take another along."""
    context = Context()
    there = [name for name in params["names"] if name in context.packages]
    if there:
        apt_removal.refuse_others(there, force=params["force"])
        if not check_mode:
            apt_removal.remove(there, params["wait"], force=params["force"])
    return {"changed": bool(there), "packages": there}
