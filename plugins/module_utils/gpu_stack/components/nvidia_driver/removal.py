"""Removal of the driver: what is left of it on the host, what forbids it and what stays."""

from __future__ import annotations

from ...change import blocker
from ...host.owned_files import owned
from ...type_checking import TYPE_CHECKING
from .. import cuda, nvidia_driver
from ..cuda import nvidia_cuda
from . import driver_method, persistence, rules, running_driver

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row

# Who is at work forbids taking a driver away as it forbids changing it.
DISTURBANCES = (
    ("gpu-processes", rules.gpu_processes),
    ("maintenance-window", rules.maintenance_window),
    ("logged-in", rules.logged_in),
)
# The files that the role writes whole, with those that CUDA needs no more.
FILES = (
    *owned(
        nvidia_driver.PINS,
        nvidia_driver.UPGRADES,
        nvidia_driver.BLACKLIST,
        persistence.CONDITION,
        running_driver.RECORD,
        "/etc/dkms/provision-sign*",
        "/etc/dkms/framework.conf.d/provision-signing.conf",
        "/etc/apt/apt.conf.d/*provision-nvidia-driver",
        "/etc/apt/sources.list.d/provision-nvidia-driver*",
        "/etc/apt/keyrings/provision-nvidia-driver*",
        "/usr/share/keyrings/provision-nvidia-driver*",
        "/etc/apt/auth.conf.d/provision-nvidia-driver*",
    ),
    *owned(*nvidia_cuda.REPOSITORY, nvidia_cuda.SHARED, needed_by=cuda.PREFERENCES),
)


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """The daemon's unit of ours, and the driver of NVIDIA's installer, if it was ours to run."""
    unit = persistence.own_unit(context)
    remaining: list[list[Any]] = [] if unit is None else [[persistence.OWN, "present"]]
    driver = driver_method.runfile(context)
    pins = context.read(nvidia_driver.PINS)
    # The role's pins tell.
    if driver is None or driver_method.of_pins(pins) != driver_method.RUNFILE:
        return remaining
    return [*remaining, [nvidia_driver.RUNFILE_ITEM, driver["version"]]]


def blockers(facts: Facts, changes: Changes, options: Options, row: Row) -> list[dict[str, Any]]:
    """Reasons not to remove the driver now. Pure."""
    driver = [entry for entry in changes if entry["component"] == nvidia_driver.NAME]
    return [
        blocker(
            identifier,
            nvidia_driver.NAME,
            message.replace("would be changed", "would be taken away"),
            hint,
        )
        for identifier, rule in DISTURBANCES
        for message, hint in (rule(facts, driver, options, row) if driver else ())
    ]


def notices(facts: Facts) -> list[dict[str, Any]]:
    """What stays until the next reboot. Pure."""
    if not facts["state"][nvidia_driver.NAME].get("loaded"):
        return []
    message = "the loaded kernel module stays until the host is rebooted"
    return [blocker("module-stays", nvidia_driver.NAME, message, "")]
