"""What prevents changes of Slurm on a host; reads, and changes nothing."""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from . import absent, configuration, hardware, node, paths, records, wishes

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Facts, Options

# The release of each distribution, as (year, month) of Slurm's.
RELEASES = {
    ("debian", "11"): (20, 11),
    ("debian", "12"): (22, 5),
    ("debian", "13"): (24, 11),
    ("ubuntu", "20.04"): (19, 5),
    ("ubuntu", "22.04"): (21, 8),
    ("ubuntu", "24.04"): (23, 11),
}
# The first that hands out its configuration as this program needs it, and one for cgroup v2.
CONFIGLESS, CGROUP2 = (20, 2), (22, 5)
# The oldest that slurmctld of each serves: SLURM_MIN_PROTOCOL_VERSION of its source. Never a newer.
OLDEST_SERVED = {
    (20, 11): (19, 5),
    (21, 8): (20, 2),
    (22, 5): (20, 11),
    (23, 11): (22, 5),
    (24, 11): (23, 2),
}
# By it slurmd with cgroup v2 asks systemd for the place of its jobs (cgroup_dbus.c).
BUS = "/run/dbus/system_bus_socket"


def survey(context: Context, facts: Facts) -> dict[str, Any]:
    """{wished, faults, theirs, controller, release, cgroup, bus, removal, steps}."""
    options, noted = context.options, records.noted(context)
    wished = wishes.is_wished(options)
    return {
        "wished": wished,
        "faults": _faults(context) if wished else [],
        "theirs": _theirs(context, noted) if wished else [],
        "controller": former_controller(context, noted, options) if wished else "",
        "release": list(release(facts["platform"]) or []),
        "cgroup": cgroup(context),
        "bus": context.exists(BUS),
        "removal": (
            absent.why_no_node_goes(context, node.leaving(context, noted, options))
            if wished
            else absent.why_not(context, noted, options)
        ),
        "steps": absent.at_work(context),
    }


def _faults(context: Context) -> list[str]:
    """What is wrong with the options, also for what this host has."""
    options = context.options
    faults = wishes.faults(options)
    if faults or not wishes.computes(options):
        return faults
    why = hardware.reserved(context, options["slurm_memory_reserve"])
    return [why] if why else []


def _theirs(context: Context, noted: dict[str, Any]) -> list[str]:
    """Configuration of a Slurm that is none of this program's."""
    if noted:
        return []
    return [path for path in (paths.SLURM_CONF, paths.DBD_CONF, "/etc/slurm-llnl/slurm.conf")
            if context.lstat(path) is not None]  # fmt: skip


def former_controller(context: Context, noted: dict[str, Any], options: Options) -> str:
    """The controller that this host is of, its name or its address; "" where it may be another's.

    A controller may get another name in the inventory, or another address.
    """
    place, name = wishes.host(options), options["slurm_controller"]
    if not place["controller_address"] or (noted.get("settings") and wishes.controls(options)):
        return ""
    by_name = noted.get("controller") or (noted.get("settings") or {}).get("controller")
    text = context.read(paths.SLURMD_ENVIRONMENT) or ""
    by_address = configuration.controller_address(text)
    if name == by_name or place["controller_address"] == by_address:
        return ""
    return by_name or by_address


def moved(former: str, options: Options) -> tuple[str, str]:
    """(why a host of this controller can't be given to the one that is wished for, what to do)."""
    name = options["slurm_controller"]
    return (
        f"this host is of the controller {former}, and slurm_controller is {name}: jobs here would "
        f"end, for {name} does not know them",
        "leave slurm_controller as it was, take Slurm off first (slurm_state: absent, and run), "
        "then change it",
    )


def release(platform: dict[str, Any]) -> tuple[int, int] | None:
    """Slurm's release that the platform has; None where it isn't known."""
    return RELEASES.get((platform.get("distribution", ""), platform.get("release", "")))


def version(text: str) -> tuple[int, int] | None:
    """(22, 5) of "22.05.8", or of what `slurmd -V` says."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def unserved(controller: tuple[int, int] | None, node: tuple[int, int] | None) -> str | None:
    """Why slurmctld of one release can't serve slurmd of another; None where it can."""
    if controller is None or node is None:
        return None
    oldest = OLDEST_SERVED.get(controller, node)
    if oldest <= node <= controller:
        return None
    return (
        "it has Slurm {0}.{1:02d}, and its controller's {2}.{3:02d} serves nodes from "
        "{4}.{5:02d} to its own".format(*node, *controller, *oldest)
        if node < controller
        else "it has Slurm {0}.{1:02d}, and its controller's {2}.{3:02d} serves none that is "
        "newer".format(*node, *controller)
    )


def cgroup(context: Context) -> int:
    """The version of cgroups by which Slurm can keep devices here: 1, 2, or 0 for none."""
    if context.exists("/sys/fs/cgroup/cgroup.controllers"):
        return 2
    return 1 if context.exists("/sys/fs/cgroup/devices") else 0
