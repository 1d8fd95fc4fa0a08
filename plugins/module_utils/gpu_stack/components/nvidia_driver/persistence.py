"""The persistence daemon, which keeps the driver initialised between jobs.

Without it each job waits while the driver starts anew, and settings of a GPU are lost in between.
On a machine without a GPU the daemon would be a failed unit after each boot; a drop-in makes
systemd skip it there. A GPU that is on the bus and does not answer is to be a failed unit.
"""

from __future__ import annotations

from ...change import change
from ...host import file_state
from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from ...host.context import Context
    from ...shapes import Changes, Options, Row, State

UNIT = "nvidia-persistenced.service"
# As Ubuntu's packages have it: the daemon runs, and keeps no driver initialised.
IDLE = "without persistence mode"
OWN = "/etc/systemd/system/" + UNIT
CONDITION = OWN + ".d/provision-gpu.conf"
MARK = "# Written by provision"

# The role's template, and what platform.gpus() counts as a GPU; unit tests compare each. An exit
# code of 1 to 254 skips the unit without failing it (systemd.service(5), ExecCondition=).
CONDITION_TEXT = """\
# Written by provision: without an NVIDIA GPU on the PCI bus the daemon is skipped, not failed.
[Service]
ExecCondition=/bin/sh -c 'for card in /sys/bus/pci/devices/*; do vendor= class=; \
read -r vendor <$$card/vendor; read -r class <$$card/class; \
case $$vendor$$class in 0x10de0x0300*|0x10de0x0302*) exit 0;; esac; done 2>/dev/null; exit 1'
"""

# The role's template too. No condition on a device alone: a card that does not answer has none, and
# systemd would skip the daemon in silence. A container's devices are those it was given, which may
# be none. Ubuntu's own unit has no condition that would have to be reset.
UNIT_TEXT = (
    MARK
    + """: what came with the driver does not keep it initialised between jobs.
[Unit]
Description=NVIDIA Persistence Daemon
ConditionVirtualization=|!container
ConditionPathExists=|/dev/nvidiactl

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced {0}--verbose
ExecStopPost=/bin/rm -rf /run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""
)


def unit_text(row: Row) -> str:
    """The role's own unit; the account is that of Ubuntu's packages, a .run file brings none."""
    is_runfile = driver_method.source(row) == driver_method.RUNFILE
    return UNIT_TEXT.format("" if is_runfile else "--user nvidia-persistenced ")


def own_unit(context: Context) -> str | None:
    """Text of the unit that this role wrote; None where there is none, or somebody else's."""
    text = context.read(OWN)
    is_ours = any(line.startswith(MARK) for line in (text or "").splitlines())
    return text if is_ours else None


def look(context: Context) -> str | None:
    """State of the daemon: "enabled", "disabled", "masked", "static" or IDLE; None without one."""
    if context.readlink(OWN) == "/dev/null":
        return "masked" if context.exists("/lib/systemd/system/" + UNIT) else None
    if not context.exists("/lib/systemd/system/" + UNIT) and not context.exists(OWN):
        return None
    # Ubuntu's unit has no [Install]: udev starts it with the driver's first device.
    text = context.read(OWN) or context.read("/lib/systemd/system/" + UNIT) or ""
    if "--no-persistence-mode" in text:
        return IDLE
    link = "/etc/systemd/system/multi-user.target.wants/" + UNIT
    if context.lstat(link) is not None:
        return "enabled"
    return "disabled" if "[Install]" in text.splitlines() else "static"


def _condition(name: str, state: State, wished: bool, scope: str) -> Changes:
    """A container with the libraries alone has no bus of its own: its drop-in is left as it is."""
    text = state.get("persistence_condition")
    if not wished:
        if text is None:
            return []
        return [change(name, CONDITION, "present", None, "persistence was switched off")]
    if scope != "full" and state["container"]:
        return []
    old = file_state.complaint(text, CONDITION_TEXT, (state.get("written") or {}).get(CONDITION))
    reason = "without a GPU the daemon would be a failed unit after each boot"
    return [] if old is None else [change(name, CONDITION, old, "as written", reason)]


def _unit(name: str, state: State, row: Row) -> Changes:
    """The role's own unit, as it wrote it for another driver or another day."""
    text = state.get("persistence_unit")
    if text is None:
        return []
    old = file_state.complaint(text, unit_text(row), (state.get("written") or {}).get(OWN))
    reason = "systemd starts the daemon, or skips it, by this file"
    return [] if old is None else [change(name, UNIT, old, "as written", reason)]


def differ(name: str, row: Row, state: State, options: Options, scope: str) -> Changes:
    """Changes that have the daemon run where it can, or not at all. Pure."""
    changes = []
    # Without a device the daemon has nothing to hold and would be a failed unit.
    can_run = scope == "full" or state["device"]
    wished = options.get("nvidia_driver_persistence", True)
    if wished and can_run and state["persistence"] in ("disabled", "masked", IDLE):
        reason = "the driver would be unloaded between jobs"
        changes.append(change(name, UNIT, state["persistence"], "enabled", reason))
    elif wished and can_run:
        changes += _unit(name, state, row)
    # Debian's package enables it by itself.
    if not wished and state["persistence"] == "enabled":
        reason = "persistence was switched off"
        changes.append(change(name, UNIT, "enabled", "disabled", reason))
    return changes + _condition(name, state, wished, scope)
