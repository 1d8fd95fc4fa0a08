"""A driver that came another way than the lock's: packages of somebody else, the .run file."""

import re

from ... import transaction
from ...rules import Rule, some
from .. import nvidia_driver
from . import driver_method, driver_packages
from .rules import scope

# Drivers that come from elsewhere than the platform's nvidia-* packages of this stack.
FOREIGN = re.compile(
    r"^(cuda-drivers(-\d+)?|nvidia-open(-\d+)?|nvidia-driver-\d+(-server|-open)*"
    r"|libnvidia-compute-\d+(-server)?|nvidia-tesla-.*|nvidia-legacy-.*xx-.*|cuda-compat-.*)$"
)

# The way out of another way's driver that the run itself can take.
SWITCH_HINT = "; or let the run switch: nvidia_driver_switch: switch"


def held_elsewhere(found, _changes, options, row):
    state = found["state"]["nvidia_driver"]
    if state.get("pins") is not None:
        return []
    wanted = driver_packages.wanted_packages(row["nvidia_driver"], scope(found, options), options)
    held = [
        "{0} {1}".format(name, seen["version"])
        for name, seen in sorted((state.get("packages") or {}).items())
        if seen["want"] == "hold" and name in wanted and seen["version"] != wanted[name]
    ]
    if not held:
        return []
    return [
        (
            "held by somebody else at another version: " + ", ".join(held),
            "if the hold is not wanted any more: apt-mark unhold "
            + " ".join(one.split()[0] for one in held),
        )
    ]


def foreign_driver(found, changes, _options, row):
    # What the plan removes by itself is no reason to stop.
    ours = transaction.locked(row) | {one["item"] for one in changes if one["to"] is None}
    if driver_method.source(row["nvidia_driver"]) == driver_method.RUNFILE:
        return []  # packaged_driver says it
    names = [name for name in found["preflight"].get("foreign") or [] if name not in ours]
    if not names:
        return []
    return [
        (
            "another NVIDIA driver is installed from packages: " + ", ".join(names),
            "remove it first: apt-get purge " + " ".join(names) + SWITCH_HINT,
        )
    ]


def _way(found):
    state = found["state"]["nvidia_driver"]
    return state.get("method"), state.get("leftovers")


def packaged_driver(found, _changes, options, row):
    _method, leftovers = _way(found)
    if driver_method.source(row["nvidia_driver"]) != driver_method.RUNFILE or not leftovers:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    return [
        (
            "the driver is installed from packages ({0}), and NVIDIA's .run file would be "
            "installed over their files".format(some(sorted(leftovers))),
            "remove them first: apt-get remove " + " ".join(sorted(leftovers)) + SWITCH_HINT,
        )
    ]


def other_method(found, _changes, options, row):
    """Packages of one way on a host that our own pins say was made by another one."""
    method, leftovers = _way(found)
    way = driver_method.source(row["nvidia_driver"])
    packaged = (driver_method.DISTRIBUTION, driver_method.NETWORK)
    if method not in packaged or way not in packaged or method == way:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    version = found["state"]["nvidia_driver"]["version"]
    if version is None and not leftovers:
        return []
    return [
        (
            "{0} came from source {1}, and the lock's driver comes from {2}".format(
                "the driver " + version if version else some(sorted(leftovers)), method, way
            ),
            "keep driver_source: {0} in gpu_stack{1}".format(method, SWITCH_HINT),
        )
    ]


def runfile_driver(found, _changes, options, row):
    installer = found["preflight"].get("installer")
    if not installer or options.get("nvidia_driver_switch") == "switch":
        return []
    if driver_method.source(row["nvidia_driver"]) == driver_method.RUNFILE:
        return []
    return [
        (
            "a driver was installed by NVIDIA's .run file ({0}); its files would shadow the "
            "packages'".format(", ".join(installer)),
            "nvidia-uninstall (when no GPU process runs), then run again" + SWITCH_HINT,
        )
    ]


RULES = (
    Rule("held", nvidia_driver.NAME, True, held_elsewhere),
    Rule("foreign-driver", nvidia_driver.NAME, True, foreign_driver),
    Rule("runfile-driver", nvidia_driver.NAME, True, runfile_driver),
    Rule("packaged-driver", nvidia_driver.NAME, True, packaged_driver),
    Rule("driver-method", nvidia_driver.NAME, True, other_method),
)
