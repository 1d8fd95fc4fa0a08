"""Installs packages by their names, at whatever version apt offers, or takes just these away.

For tools and what belongs to a kernel; a component's own packages have exact versions
(`package_install`). ansible.builtin.apt would install python3-apt first, and for that fetch the
lists of every source.
"""

from __future__ import annotations

import contextlib
import fnmatch

from ..type_checking import TYPE_CHECKING
from . import apt_commands, apt_removal, package_lists, service_starts
from .context import Context
from .refusal import RefusalError

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
    if not check_mode:
        service_starts.restore()
    if params["state"] == "absent":
        return _taken(params, check_mode)
    lacking = look(Context(), params["names"])
    if lacking and params["lists"] and not check_mode:
        _install_by_fresh_lists(lacking, params)
    elif lacking:
        _install(lacking, params, check_mode)
    return {"changed": bool(lacking), "packages": lacking}


def _install_by_fresh_lists(lacking: list[str], params: dict[str, Any]) -> None:
    """Fetches apt's lists, unless this run has, and installs by them.

    What fails by lists from earlier in a long run is tried once more by new ones.
    """
    if package_lists.fetched_by_this_run():
        try:
            _install(lacking, params)
            return
        except RefusalError:
            pass  # said below, where it is no fault of the lists
    lists = package_lists.fetch([], params["wait"])
    if lists["locked"]:
        raise RefusalError(f"Another apt is at work. {lists['words']}")
    # A source of somebody's that failed does not matter where apt has the packages all the same.
    simulation = [*apt_commands.UNFORCED_INSTALL, "--simulate", "install", *lacking]
    if lists["errors"] and apt_commands.run(simulation).rc != 0:
        raise RefusalError(
            f"{', '.join(lacking)} must be installed, and apt cannot fetch its package lists:"
            f" {lists['words']} Check this host's network, its proxy (apt.conf.d) and its sources."
            " Nothing was installed."
        )
    _install(lacking, params)


def _install(lacking: list[str], params: dict[str, Any], check_mode: bool = False) -> None:
    """Installs them, or simulates it; RefusalError with apt's words."""
    install = apt_commands.INSTALL if params["force"] else apt_commands.UNFORCED_INSTALL
    command = [*install, apt_commands.lock_timeout(params["wait"]), "install", *lacking]
    quiet = not (params["start"] or check_mode)
    with service_starts.none() if quiet else contextlib.nullcontext():
        words = ["--simulate"] if check_mode else []
        apt_commands.install(", ".join(lacking), [*command, *words], params["wait"])


def _taken(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Removes those that are there; RefusalError where apt would take another along."""
    context = Context()
    there = [name for name in params["names"] if name in context.packages]
    if there:
        apt_removal.refuse_others(there, force=params["force"])
        if not check_mode:
            apt_removal.remove(there, params["wait"], force=params["force"])
    return {"changed": bool(there), "packages": there}
