"""The persistence daemon, which keeps the driver initialised between jobs.

Without it each job waits while the driver starts anew, and settings of a GPU are lost in between.
"""

from __future__ import annotations

from ...change import change
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from ...host.context import Context
    from ...shapes import Changes, Options, State

UNIT = "nvidia-persistenced.service"
# As Ubuntu's packages have it: the daemon runs, and keeps no driver initialised.
IDLE = "without persistence mode"


def look(context: Context) -> str | None:
    """State of the daemon: "enabled", "disabled", "masked", "static" or IDLE; None without one."""
    own = "/etc/systemd/system/" + UNIT
    if context.readlink(own) == "/dev/null":
        return "masked" if context.exists("/lib/systemd/system/" + UNIT) else None
    if not context.exists("/lib/systemd/system/" + UNIT) and not context.exists(own):
        return None
    # Ubuntu's unit has no [Install]: udev starts it with the driver's first device.
    text = context.read(own) or context.read("/lib/systemd/system/" + UNIT) or ""
    if "--no-persistence-mode" in text:
        return IDLE
    link = "/etc/systemd/system/multi-user.target.wants/" + UNIT
    if context.lstat(link) is not None:
        return "enabled"
    return "disabled" if "[Install]" in text.splitlines() else "static"


def differ(name: str, state: State, options: Options, scope: str) -> Changes:
    """Changes that have the daemon run where it can, or not at all. Pure."""
    changes = []
    # Without a device the daemon has nothing to hold and would be a failed unit.
    can_run = scope == "full" or state["device"]
    wished = options.get("nvidia_driver_persistence", True)
    if wished and can_run and state["persistence"] in ("disabled", "masked", IDLE):
        reason = "the driver would be unloaded between jobs"
        changes.append(change(name, UNIT, state["persistence"], "enabled", reason))
    # Debian's package enables it by itself.
    if not wished and state["persistence"] == "enabled":
        reason = "persistence was switched off"
        changes.append(change(name, UNIT, "enabled", "disabled", reason))
    return changes
