"""How a driver comes to a host: the platform's packages, NVIDIA's repository, the .run file.

Each way alone works; two of them on one host are how drivers break: a package's upgrade overwrites
half of the .run file's libraries, and the other's uninstaller then removes the rest. So the look
says which way is there and what is left of another, and a plan never mixes two.
"""

import re

from ...host import apt, modes

DISTRIBUTION = "distribution"
NETWORK = "network"
RUNFILE = "runfile"

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
DEBIAN_MODULE = "nvidia-current"
MODULES = ("nvidia", "nvidia-srv", "nvidia-open", "nvidia-srv-open", DEBIAN_MODULE)

# PCI class of NVSwitch: a bridge of no kind that the standard names.
BRIDGE = "0x0680"
FABRIC_UNIT = "nvidia-fabricmanager.service"

_VERSION = re.compile(r"^\d{3}\.\d+(\.\d+)?$")

# Packages that are a driver, or a part of one: what goes when the way is switched. Not CUDA's
# (nvidia-cuda-*, *-dev), not the container toolkit's, and no tool that drives nothing.
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
# Modules that the distribution built and signed, one package for each kernel and one that follows
# the newest: their version is the kernel's, so it is the module in them that is looked at.
OF_KERNEL = re.compile(r"^linux-(modules|objects|signatures)-nvidia-")


def source(row):
    """ "distribution", "network" or "runfile"; a lock without the key is of the first kind."""
    return row.get("source") or DISTRIBUTION


def prebuilt(row):
    """True where the row's modules come built and signed, and DKMS has nothing to do."""
    return any(OF_KERNEL.match(name) for name in row.get("packages", {}).get("kernel") or {})


def upstream(version):
    """NVIDIA's version in a package's: "470.256.02" of "1:470.256.02-0ubuntu1"."""
    return version.rpartition(":")[2].split("-")[0]


def packaged(context, names=()):
    """The version of the driver's library as packages have it; None without one.

    `names`: the row's own packages, which are asked first.
    """
    seen = context.packages.get("libcuda1")
    if seen is not None:
        return upstream(seen["version"])
    installed = [name for name in context.packages if name.startswith("libnvidia-compute")]
    for name in sorted(installed, key=lambda one: (one not in names, one)):
        if ":" not in name:
            return upstream(context.packages[name]["version"])
    return None


def of_pins(text):
    """The way that the role took here, by its own pins; None where it has written none."""
    if text is None or not text.startswith("# Written by provision: the driver "):
        return None
    told = re.search(r"^# Source: (\w+)$", text, re.M)
    return told.group(1) if told is not None else DISTRIBUTION


def runfile(context):
    """{"version", "faults": {path: fault}} of a driver by the .run file; None without one."""
    if not context.exists(UNINSTALLER):
        return None
    first = (context.read(RECORD) or "").split("\n", 1)[0].strip()
    version = first if _VERSION.match(first) else _library(context, "libnvidia-ml.so.1")[1]
    faults = {}
    if not context.exists(PROGRAM):
        faults[PROGRAM] = "missing"
    for soname in SONAMES:
        path, seen = _library(context, soname)
        if seen is None:
            faults[path] = "missing"
        elif version is not None and seen != version:
            faults[path] = seen
    there = [PROGRAM, *(_library(context, name)[0] for name in SONAMES)]
    for path, (fault, _mode) in modes.ways(context, there).items():
        faults.setdefault(path, fault)
    return {"version": version, "faults": faults}


def _library(context, soname):
    """(path, the version it leads to) of a driver's library; the version is None without one."""
    for directory in LIBRARIES:
        path = directory + "/" + soname
        real = context.resolve(path)
        if real is not None:
            return path, real.rsplit("/", 1)[-1].partition(".so.")[2]
    return LIBRARIES[0] + "/" + soname, None


def leftovers(context, row, names, pins):
    """{package: version} of another driver, or of another branch, beside what the row wishes."""
    installed = [name for name in context.packages if ":" not in name and name not in names]
    way = source(row)
    if way == RUNFILE or of_pins(pins) not in (None, way):
        found = [name for name in installed if DRIVER.match(name)]
    else:
        kinds = {_kind(name) for name in names} - {None}
        # The names of a platform without branches in them say nothing of what is beside them.
        if of_pins(pins) is not None and not kinds:
            return {}
        found = [name for name in installed if _kind(name) not in kinds | {None}]
    return {name: context.packages[name]["version"] for name in sorted(found)}


def _kind(name):
    """(branch, whether Canonical's -server) in a package's name; None where it has no branch."""
    match = BRANCHED.match(name)
    return None if match is None else (match.group(1), "-server" in name)


def _debian(row):
    """True where the module is Debian's own, whose name differs from all others."""
    kernel = (row.get("packages") or {}).get("kernel") or {}
    return source(row) == DISTRIBUTION and (not row or "nvidia-kernel-dkms" in kernel)


def module(context, kernel, row):
    """The version of the module that one kernel would load; None without one.

    DKMS keeps a link kernel-<kernel>-<architecture> to <version>/<kernel>/<architecture> for what
    is installed; a link without the file means that somebody took the module away.
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


def _of_dkms(context, kernel, name):
    file = DEBIAN_MODULE if name == DEBIAN_MODULE else "nvidia"
    if not context.glob("/lib/modules/{0}/updates/dkms/{1}.ko*".format(kernel, file)):
        return None
    base = DKMS + "/" + name
    for entry in context.listdir(base):
        if entry.startswith("kernel-{0}-".format(kernel)):
            return (context.readlink(base + "/" + entry) or "").split("/")[0] or None
    return None


def older_modules(context, row):
    """["nvidia/470.239.06"] of the versions that DKMS still keeps beside the row's.

    A new kernel would get all of them, and the last one built would be the one that is loaded.
    """
    found = []
    for name in () if _debian(row) else MODULES[:-1]:
        for entry in context.listdir(DKMS + "/" + name):
            if _VERSION.match(entry) and entry != row["version"]:
                found.append(name + "/" + entry)
    return found


def headers_lacking(context):
    """The metapackages of headers that are not there though that of the kernel image is.

    linux-image-generic brings the next kernel; without linux-headers-generic DKMS can't build for
    it, and the driver is gone after the next boot.
    """
    found = []
    for name in sorted(context.packages):
        match = re.match(r"^linux-image-((?!unsigned-|extra-)[a-z][^:]*)$", name)
        if match is None or name.endswith("-dbg"):
            continue
        headers = "linux-headers-" + match.group(1)
        if headers not in context.packages:
            found.append(headers)
    return found


def switches(context):
    """How many NVSwitches are on the PCI bus."""
    count = 0
    for path in context.glob("/sys/bus/pci/devices/*/vendor"):
        kind = (context.read(path[: -len("vendor")] + "class") or "").strip().lower()
        if (context.read(path) or "").strip().lower() == "0x10de" and kind.startswith(BRIDGE):
            count += 1
    return count


def fabric(context, branch):
    """{"package", "version", "want", "unit"} of the fabric manager; version None without one."""
    found = {"package": "nvidia-fabricmanager-{0}".format(branch), "version": None, "want": None}
    for name in (found["package"], "nvidia-fabricmanager"):
        seen = context.packages.get(name)
        if seen is not None:
            found.update(package=name, version=seen["version"], want=seen["want"])
            break
    link = "/etc/systemd/system/multi-user.target.wants/" + FABRIC_UNIT
    found["unit"] = "enabled" if context.lstat(link) is not None else "disabled"
    return found


def sources(context, url, suite, file):
    """None where the repository is named with our key in `file`, else what is wrong."""
    text = context.read(file)
    if text is None:
        return "absent"
    if apt.bare(text) != text:
        return "a password that everybody can read"
    for entry in apt.apt_entries(context):
        uris = [one.rstrip("/") for one in entry["uris"]]
        if entry["file"] == file and suite in entry["suites"] and uris == [url.rstrip("/")]:
            return None
    return "other content"
