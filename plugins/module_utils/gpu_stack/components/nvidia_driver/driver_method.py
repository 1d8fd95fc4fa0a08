"""Where a driver is installed from: the platform's packages, NVIDIA's repository, the .run file.

Each source works alone; two on one host break the driver: a package upgrade overwrites half of the
.run file's libraries, and its uninstaller then removes the rest. So the look reports which source
was used and what another one left behind, and a plan never mixes two.
"""

from __future__ import annotations

import re

from ...host import apt, modes
from ...type_checking import TYPE_CHECKING
from . import module_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...host.context import Context
    from ...shapes import Row

DISTRIBUTION, NETWORK, RUNFILE = "distribution", "network", "runfile"

# NVIDIA's installer leaves its uninstaller, and a record whose first line is the version.
UNINSTALLER = "/usr/bin/nvidia-uninstall"
RECORD = "/var/lib/nvidia/log"
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
# What every installation by the .run file has, whatever its options.
PROGRAM = "/usr/bin/nvidia-smi"
SONAMES = ("libcuda.so.1", "libnvidia-ml.so.1")

# DKMS's names of the module: Debian's, NVIDIA's and the .run file's, Canonical's for -server.
DKMS = "/var/lib/dkms"
# The first line of DKMS's log; dkms 3.2 names itself there ("DKMS (dkms-3.2.2) make.log ...").
BUILT_FOR = re.compile(r"^DKMS (?:\([^)\n]*\) )?make\.log for \S+ for kernel (\S+)", re.M)
DEBIAN_MODULE = "nvidia-current"
MODULES = ("nvidia", "nvidia-srv", "nvidia-open", "nvidia-srv-open", DEBIAN_MODULE)

# PCI class of NVSwitch: a bridge of no kind that the standard names.
BRIDGE = "0x0680"
FABRIC_UNIT = "nvidia-fabricmanager.service"

_VERSION = re.compile(r"^\d{3}\.\d+(\.\d+)?$")

# Packages of a driver: what is removed when the source is switched. Not CUDA's (nvidia-cuda-*,
# *-dev), not those for containers, and no tool that is no part of a driver.
DRIVER = re.compile(
    r"^(?!.*-dev$)(?!libnvidia-(container|egl-wayland))("
    r"cuda-drivers(-.*)?|nvidia-open(-.*)?|libcuda1|libnvcuvid1|libnvoptix1|libnvidia-.*"
    r"|nvidia-(smi|alternative|persistenced|modprobe|support|installer-cleanup|legacy-check)"
    r"|nvidia-(driver|dkms|headless|utils|compute-utils|kernel|firmware|legacy|tesla)(-.*)?"
    r"|nvidia-(vdpau-driver|egl-icd|egl-common|opencl-icd|opencl-common|vulkan-icd|vulkan-common)"
    r"|nvidia-(imex|fabricmanager)(-\d.*)?|nvidia-fabric-manager"
    r"|libgl1-nvidia-.*|libegl-nvidia0|libglx-nvidia0|libgles-nvidia\d|libopengl-nvidia.*"
    r"|firmware-nvidia-gsp|xserver-xorg-video-nvidia(-.*)?"
    r"|linux-(modules|objects|signatures)-nvidia-.*"
    r"|glx-alternative-.*|glx-diversions|update-glx"
    r")$"
)
# The same of one branch, where the branch is in the name.
BRANCHED = re.compile(
    r"^(?:libnvidia-[a-z0-9-]+?|nvidia-[a-z-]+?|cuda-drivers|xserver-xorg-video-nvidia"
    r"|linux-(?:modules|objects|signatures)-nvidia)-(\d{3})(?:xx)?(?:-|$)"
)
# Modules that the distribution built and signed, one package per kernel and one that follows the
# newest. Their version is the kernel's, so the module in them is compared instead.
OF_KERNEL = re.compile(r"^linux-(modules|objects|signatures)-nvidia-")


def kernel_of_log(log: str) -> str | None:
    """The kernel that a log of DKMS's says it is of; None where it says none."""
    named = BUILT_FOR.search(log)
    return None if named is None else named.group(1)


def source(row: Row) -> str:
    """Returns "distribution", "network" or "runfile"; a lock without the key means the first."""
    return row.get("source") or DISTRIBUTION


def prebuilt(row: Row) -> bool:
    """Whether the row's modules come built and signed, so that DKMS has nothing to do."""
    return any(OF_KERNEL.match(name) for name in row.get("packages", {}).get("kernel") or {})


def upstream(version: str) -> str:
    """NVIDIA's version in a package's: "470.256.02" of "1:470.256.02-0ubuntu1"."""
    return version.rpartition(":")[2].split("-")[0]


def packaged(context: Context, names: Iterable[str] = ()) -> str | None:
    """Version of the packaged driver library; None without one.

    `names`: the row's own packages, which take precedence.
    """
    library = context.packages.get("libcuda1")
    if library is not None:
        return upstream(library["version"])
    installed = [name for name in context.packages if name.startswith("libnvidia-compute")]
    for name in sorted(installed, key=lambda name: (name not in names, name)):
        if ":" not in name:
            return upstream(context.packages[name]["version"])
    return None


def of_pins(text: str | None) -> str | None:
    """The source that the role installed from, as its pins record it; None without our pins."""
    if text is None or not text.startswith("# Written by provision: the driver "):
        return None
    recorded = re.search(r"^# Source: (\w+)$", text, re.M)
    return recorded.group(1) if recorded is not None else DISTRIBUTION


def runfile(context: Context) -> dict[str, Any] | None:
    """{"version", "faults": {path: fault}} of a driver from the .run file; None without one."""
    if not context.exists(UNINSTALLER):
        return None
    recorded = (context.read(RECORD) or "").split("\n", 1)[0].strip()
    version = recorded if _VERSION.match(recorded) else _library(context, "libnvidia-ml.so.1")[1]
    faults = {}
    if not context.exists(PROGRAM):
        faults[PROGRAM] = "missing"
    for soname in SONAMES:
        path, found_version = _library(context, soname)
        if found_version is None:
            faults[path] = "missing"
        elif version is not None and found_version != version:
            faults[path] = found_version
    paths = [PROGRAM, *(_library(context, name)[0] for name in SONAMES)]
    for path, (fault, _mode) in modes.faults(context, paths).items():
        faults.setdefault(path, fault)
    return {"version": version, "faults": faults}


def _library(context: Context, soname: str) -> tuple[str, str | None]:
    """(path, version its link points to) of a driver library; the version is None if missing."""
    for directory in LIBRARIES:
        path = directory + "/" + soname
        real = context.resolve(path)
        if real is not None:
            return path, real.rsplit("/", 1)[-1].partition(".so.")[2]
    return LIBRARIES[0] + "/" + soname, None


def leftovers(context: Context, row: Row, names: list[str], pins: str | None) -> dict[str, str]:
    """{package: version} of another driver or branch, installed beside the row's packages."""
    installed = [name for name in context.packages if ":" not in name and name not in names]
    way = source(row)
    if way == RUNFILE or of_pins(pins) not in (None, way):
        others = [name for name in installed if DRIVER.match(name)]
    else:
        kinds = {_kind(name) for name in names} - {None}
        # Package names without a branch can't tell which other packages are of another branch.
        if of_pins(pins) is not None and not kinds:
            return {}
        others = [name for name in installed if _kind(name) not in kinds | {None}]
    return {name: context.packages[name]["version"] for name in sorted(others)}


def _kind(name: str) -> tuple[str, bool] | None:
    """(branch, whether Canonical's -server) of a package name; None where it has no branch."""
    match = BRANCHED.match(name)
    return None if match is None else (match.group(1), "-server" in name)


def _debian(row: Row) -> bool:
    """Whether the module is Debian's own, whose name differs from all others."""
    kernel = (row.get("packages") or {}).get("kernel") or {}
    return source(row) == DISTRIBUTION and (not row or "nvidia-kernel-dkms" in kernel)


def loaded_as(row: Row) -> str:
    """The module's file, without its ending."""
    return DEBIAN_MODULE if _debian(row) else "nvidia"


def module(context: Context, kernel: str, row: Row) -> str | None:
    """Version of the module that `kernel` would load; None without one.

    DKMS keeps a link kernel-<kernel>-<architecture> to <version>/<kernel>/<architecture> for what
    is installed; a link without the file means that somebody deleted the module.
    """
    debian = _debian(row)
    for name in (DEBIAN_MODULE,) if debian else MODULES:
        version = _of_dkms(context, kernel, name)
        if version is not None:
            return version
    if debian:
        return None
    answer = context.run(["modinfo", "-F", "version", "-k", kernel, "nvidia"])
    return answer.out.strip() or None if answer.rc == 0 else None


def _of_dkms(context: Context, kernel: str, name: str) -> str | None:
    """Version of the DKMS module `name` that is installed for `kernel`; None without one.

    None too where a file of it is not whole: of the driver's modules each is needed.
    """
    file = DEBIAN_MODULE if name == DEBIAN_MODULE else "nvidia"
    if not context.glob(f"{installed(kernel)}/{file}.ko*"):
        return None
    build = kept(context, kernel, name)
    if build is None or module_files.broken(context, build, installed(kernel)):
        return None
    return build[len(f"{DKMS}/{name}/") :].split("/")[0] or None


def installed(kernel: str) -> str:
    """The folder of DKMS's modules from which a kernel loads."""
    return f"/lib/modules/{kernel}/updates/dkms"


def kept(context: Context, kernel: str, name: str) -> str | None:
    """The folder in which DKMS keeps what is installed for `kernel`; None where nothing is."""
    base = DKMS + "/" + name
    for entry in context.listdir(base):
        if entry.startswith(f"kernel-{kernel}-"):
            return f"{base}/{context.readlink(base + '/' + entry) or ''}/module"
    return None


def older_modules(context: Context, row: Row) -> list[str]:
    """Module versions that DKMS keeps beside the row's, as ["nvidia/470.239.06"].

    DKMS would build all of them for a new kernel, which loads the one built last.
    """
    modules = []
    for name in () if _debian(row) else MODULES[:-1]:
        for entry in context.listdir(DKMS + "/" + name):
            if _VERSION.match(entry) and entry != row["version"]:
                modules.append(name + "/" + entry)
    return modules


def following_headers(context: Context) -> list[str]:
    """Headers metapackages that belong to the installed ones of kernel images.

    linux-image-generic brings the next kernel; without linux-headers-generic DKMS can't build for
    it, and the driver is gone after the next boot.
    """
    images = (
        re.match(r"^linux-image-((?!unsigned-|extra-)[a-z][^:]*)$", name)
        for name in sorted(context.packages)
        if not name.endswith("-dbg")
    )
    return ["linux-headers-" + image.group(1) for image in images if image is not None]


def headers_lacking(context: Context) -> list[str]:
    """Those of following_headers() that are not installed."""
    return [name for name in following_headers(context) if name not in context.packages]


def switches(context: Context) -> int:
    """Number of NVSwitches on the PCI bus."""
    count = 0
    for path in context.glob("/sys/bus/pci/devices/*/vendor"):
        kind = (context.read(path[: -len("vendor")] + "class") or "").strip().lower()
        if (context.read(path) or "").strip().lower() == "0x10de" and kind.startswith(BRIDGE):
            count += 1
    return count


def fabric(context: Context, branch: Any) -> dict[str, Any]:
    """{"package", "version", "want", "unit", "runs"} of the fabric manager.

    "version" is None if it is missing.
    """
    branched = f"nvidia-fabricmanager-{branch}"
    fabric_manager: dict[str, Any] = {"package": branched, "version": None, "want": None}
    for name in (branched, "nvidia-fabricmanager"):
        package = context.packages.get(name)
        if package is not None:
            fabric_manager.update(package=name, version=package["version"], want=package["want"])
            break
    link = "/etc/systemd/system/multi-user.target.wants/" + FABRIC_UNIT
    fabric_manager["unit"] = "enabled" if context.lstat(link) is not None else "disabled"
    # systemd has a service's cgroup while it runs.
    slices = ("/sys/fs/cgroup/system.slice/", "/sys/fs/cgroup/systemd/system.slice/")
    fabric_manager["runs"] = any(context.exists(place + FABRIC_UNIT) for place in slices)
    return fabric_manager


def sources(context: Context, url: str, suite: str, file: str) -> str | None:
    """What is wrong with the repository's entry in `file`; None where it is as expected."""
    text = context.read(file)
    if text is None:
        return "absent"
    if apt.bare(text) != text:
        return "a password that everybody can read"
    for entry in apt.apt_entries(context):
        uris = [uri.rstrip("/") for uri in entry["uris"]]
        if entry["file"] == file and suite in entry["suites"] and uris == [url.rstrip("/")]:
            return None
    return "other content"
