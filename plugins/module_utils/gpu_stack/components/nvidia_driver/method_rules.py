"""Rules about a driver from another source than the lock's: others' packages, the .run file."""

from __future__ import annotations

import re

from ... import transaction
from ...rules import rules_of, some
from ...type_checking import TYPE_CHECKING
from .. import nvidia_driver
from . import driver_method, driver_packages
from .rules import scope

if TYPE_CHECKING:
    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row

# Drivers that come from elsewhere than the platform's nvidia-* packages of this stack. Not
# cuda-compat-*: its libcuda lies in CUDA's tree, for programs that ask for it beside a driver
# (https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html).
FOREIGN = re.compile(
    r"^(cuda-drivers(-\d+)?|nvidia-open(-\d+)?|nvidia-driver-\d+(-server|-open)*"
    r"|libnvidia-compute-\d+(-server)?|nvidia-tesla-.*|nvidia-legacy-.*xx-.*)$"
)

# What the run itself can do about a driver from another source.
SWITCH_HINT = "; or let the run switch: nvidia_driver_switch: switch"


INSTALLERS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")


def foreign(context: Context) -> list[str]:
    """Packages of drivers from elsewhere."""
    return sorted(name for name in context.packages if FOREIGN.match(name))


def installers(context: Context) -> list[str]:
    """Programs that NVIDIA's .run file leaves."""
    return [path for path in INSTALLERS if context.exists(path)]


def held_elsewhere(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    state = host["state"]["nvidia_driver"]
    if state.get("pins") is not None:
        return []
    versions = driver_packages.wanted_packages(row["nvidia_driver"], scope(host, options), options)
    held = [
        "{0} {1}".format(name, package["version"])
        for name, package in sorted((state.get("packages") or {}).items())
        if package["want"] == "hold"
        and name in versions
        and package["version"] != versions[name]
        # Modules that the distribution built follow the kernel.
        and not driver_method.OF_KERNEL.match(name)
    ]
    if not held:
        return []
    return [
        (
            "held by somebody else at another version: " + ", ".join(held),
            "if the hold is not wanted any more: apt-mark unhold "
            + " ".join(entry.split()[0] for entry in held),
        )
    ]


def foreign_driver(
    host: Facts,
    changes: Changes,
    _options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    # The plan removes some of them itself.
    ours = transaction.locked(row) | {change["item"] for change in changes if change["to"] is None}
    if driver_method.source(row["nvidia_driver"]) == driver_method.RUNFILE:
        return []  # packaged_driver reports it
    names = [name for name in host["preflight"].get("foreign") or [] if name not in ours]
    if not names:
        return []
    return [
        (
            "another NVIDIA driver is installed from packages: " + ", ".join(names),
            "remove it first: apt-get purge " + " ".join(names) + SWITCH_HINT,
        )
    ]


def _method(host: Facts) -> tuple[str | None, dict[str, str]]:
    """(the method that our pins record, packages left by another one)."""
    state = host["state"]["nvidia_driver"]
    return state.get("method"), state.get("leftovers", {})


def packaged_driver(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    leftovers = _method(host)[1]
    if driver_method.source(row["nvidia_driver"]) != driver_method.RUNFILE or not leftovers:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    return [
        (
            f"the driver is installed from packages ({some(sorted(leftovers))}), and NVIDIA's "
            ".run file would be installed over their files",
            "remove them first: apt-get remove " + " ".join(sorted(leftovers)) + SWITCH_HINT,
        )
    ]


def other_method(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    """Refuses packages from one repository on a host whose pins name the other as the source."""
    method, leftovers = _method(host)
    way = driver_method.source(row["nvidia_driver"])
    packaged = (driver_method.DISTRIBUTION, driver_method.NETWORK)
    if method not in packaged or way not in packaged or method == way:
        return []
    if options.get("nvidia_driver_switch") == "switch":
        return []
    version = host["state"]["nvidia_driver"]["version"]
    if version is None and not leftovers:
        return []
    return [
        (
            "{0} came from source {1}, and the lock's driver comes from {2}".format(
                "the driver " + version if version else some(sorted(leftovers)), method, way
            ),
            f"keep driver_source: {method} in gpu_stack{SWITCH_HINT}",
        )
    ]


def runfile_driver(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    installer = host["preflight"].get("installer")
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


FACTS = {"foreign": foreign, "installer": installers}
RULES = rules_of(
    nvidia_driver.NAME,
    stops={
        "held": held_elsewhere,
        "foreign-driver": foreign_driver,
        "runfile-driver": runfile_driver,
        "packaged-driver": packaged_driver,
        "driver-method": other_method,
    },
)
