"""The fabric manager, without which the GPUs of a machine with NVSwitch can't be used."""

from __future__ import annotations

from ...change import change
from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from ...host.context import Context
    from ...shapes import Changes, Options, Row, State


def wanted(options: Options, switches: int) -> bool:
    """Whether this host is to run the fabric manager; "auto" means with an NVSwitch only."""
    wish = str(options.get("nvidia_driver_fabric_manager", "auto")).lower()
    return bool(switches) if wish == "auto" else wish == "true"


def package(context: Context, row: Row) -> dict[str, str]:
    """{package: version} of the driver's fabric manager as it is installed where it is wanted.

    Empty without one: which version of the package apt has is not known before.
    """
    if not wanted(context.options, driver_method.switches(context)):
        return {}
    manager = driver_method.fabric(context, row.get("branch"))
    name, version = manager["package"], manager["version"]
    is_drivers = version is not None and driver_method.upstream(version) == row.get("version")
    return {name: version} if is_drivers else {}


def differ(component: str, row: Row, state: State, hold: bool) -> Changes:
    """Changes to the fabric manager, which must have exactly the driver's version. Pure."""
    manager = state["fabric"]
    name, version = manager["package"], manager["version"]
    if version is None or driver_method.upstream(version) != row["version"]:
        reason = "NVSwitch works only with the fabric manager of the driver's version"
        return [change(component, name, version, row["version"], reason)]
    changes = []
    if hold and manager["want"] != "hold":
        reason = "an upgrade could move it away from the driver"
        changes.append(change(component, name + " hold", "not held", "held", reason))
    reason = "without it CUDA answers 'system not yet initialized'"
    unit = driver_method.FABRIC_UNIT
    if manager["unit"] != "enabled":
        changes.append(change(component, unit, manager["unit"], "enabled", reason))
    elif _can_run(row, state) and not manager["runs"]:
        changes.append(change(component, unit, "not running", "running", reason))
    return changes


def _can_run(row: Row, state: State) -> bool:
    """Without an NVSwitch it ends at once; a driver that waits for a reboot has it start then."""
    if not state["switches"] or state["container"] or state["nouveau_loaded"]:
        return False
    return bool(state["loaded"] == row["version"])
