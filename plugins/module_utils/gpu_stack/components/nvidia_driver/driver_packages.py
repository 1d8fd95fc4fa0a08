"""The driver's packages, and how apt's preferences keep them at their versions."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from ...shapes import Options, Row

PINS_TEXT = """\
# Written by provision: the driver stays {0} on this host.
# Debian's security archive and NVIDIA's repositories carry newer drivers under the same
# names; without these pins a later "apt install" of any sibling would ask for the newer one.
Package: libcuda1 *nvidia*
Pin: version {1}
Pin-Priority: 1001
"""

RUNFILE_PINS_TEXT = """\
# Written by provision: the driver {0} is NVIDIA's .run file's on this host.
# Source: runfile
# A package of a driver, which CUDA's metapackage would bring, would overwrite half of its files.
Package: {1}
Pin: release *
Pin-Priority: -1
"""

RUNFILE_PINNED = (
    "libcuda1 libnvidia-compute* libnvidia-ml1 nvidia-smi nvidia-driver* nvidia-open* cuda-drivers*"
    " nvidia-kernel-dkms nvidia-dkms-* nvidia-headless-* nvidia-utils-* nvidia-alternative"
    " linux-modules-nvidia-*"
)

NETWORK_PINS_TEXT = """\
# Written by provision: the driver stays {0} on this host.
# Source: network
# The repository carries every branch of the driver, and CUDA's metapackages that ask for the
# newest: of a driver only what is named here by its exact version comes from there.
Package: libcuda1 *nvidia*
Pin: version {1}
Pin-Priority: 1001
"""

# apt takes the first pin that fits a version.
NETWORK_REST_TEXT = """
Package: cuda cuda-drivers* cuda-runtime-* libcuda* libnvidia-* nvidia-* xserver-xorg-video-nvidia*
Pin: release l=NVIDIA CUDA
Pin-Priority: -1

Package: *
Pin: release l=NVIDIA CUDA
Pin-Priority: 50
"""


def main_version(row: Row) -> str:
    """Version that most of the driver's packages have: that of their common source package."""
    userspace: dict[str, str] = row["packages"].get("userspace") or {}
    if "nvidia-smi" in userspace:
        return userspace["nvidia-smi"]
    own = [
        userspace[name]
        for name in sorted(userspace)
        if driver_method.upstream(userspace[name]) == row["version"]
    ]
    return own[0] if own else str(row["version"])


def pins_text(row: Row) -> str:
    """Content of the apt preferences file: the driver's version for all, then the exceptions."""
    if driver_method.source(row) == driver_method.RUNFILE:
        return RUNFILE_PINS_TEXT.format(row["version"], RUNFILE_PINNED)
    packages = {
        name: version
        for name, version in all_packages(row).items()
        if not driver_method.OF_KERNEL.match(name)
    }
    main = main_version(row)
    network = driver_method.source(row) == driver_method.NETWORK
    text = (NETWORK_PINS_TEXT if network else PINS_TEXT).format(row["version"], main)
    for name in sorted(packages):
        if packages[name] != main:
            text += f"\nPackage: {name}\nPin: version {packages[name]}\nPin-Priority: 1001\n"
    return text + NETWORK_REST_TEXT if network else text


def all_packages(row: Row) -> dict[str, str]:
    """{name: version} of all package sets of the lock."""
    packages: dict[str, str] = {}
    for group in ("userspace", "kernel", "desktop"):
        packages.update((row.get("packages") or {}).get(group) or {})
    return packages


def wanted_packages(row: Row, scope: str, options: Options) -> dict[str, str]:
    """{name: version} of the package sets that this scope and profile install."""
    if driver_method.source(row) == driver_method.RUNFILE:
        return {}
    packages = dict(row["packages"]["userspace"])
    if scope == "full":
        packages.update(row["packages"].get("kernel") or {})
        if options.get("nvidia_driver_profile", "compute") == "desktop":
            packages.update(row["packages"].get("desktop") or {})
    return packages


def resolve_scope(options: Options, container: bool) -> str:
    """Returns "userspace" or "full"; "auto" is userspace in a container, which shares a kernel."""
    scope = options.get("nvidia_driver_scope") or "auto"
    if scope != "auto":
        return scope
    return "userspace" if container else "full"
