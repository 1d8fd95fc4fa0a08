"""The NVIDIA driver: its packages, what keeps them at their version, and the kernel's part.

A driver goes wrong quietly: an unattended upgrade moves the library away from the loaded module, a
new kernel boots without a module, an old initramfs brings nouveau back. None of that shows in a
package list, so the look reads pins, holds, DKMS's links, the age of the initramfs and /sys/module.
"""

import functools

from ...change import change
from ...host import apt, debian_versions, dpkg, file_state, logins, package_files, platform
from . import driver_method, driver_packages

NAME = "nvidia_driver"

PINS = "/etc/apt/preferences.d/provision-nvidia-driver"
UPGRADES = "/etc/apt/apt.conf.d/51provision-gpu-stack"
BLACKLIST = "/etc/modprobe.d/provision-nouveau.conf"
UNIT = "nvidia-persistenced.service"
# As Ubuntu's packages have it: the daemon runs, and keeps no driver initialised.
IDLE = "without persistence mode"

# Debian puts the driver's programs and libraries in their places through update-alternatives:
# {group: the package whose scripts make it}.
ALTERNATIVES = {"glx": "glx-alternative-nvidia", "nvidia": "nvidia-alternative"}
CURRENT = "/usr/lib/nvidia/current"

# Debian's name of the module in DKMS and on disk; /etc/modprobe.d/nvidia.conf makes `modprobe
# nvidia` load it.
MODULE = driver_method.DEBIAN_MODULE

# What the plan calls a driver that is no package.
RUNFILE_ITEM = "driver (.run)"
# Where NVIDIA's repository stands; CUDA's own file where CUDA comes from the same one, for apt
# refuses all work where two sources of one repository name different keys.
REPOSITORY = "/etc/apt/sources.list.d/provision-nvidia-driver-repository.sources"
SHARED_REPOSITORY = "/etc/apt/sources.list.d/provision-cuda.sources"

# The texts below are the role's templates; a unit test compares the two byte for byte.
UPGRADES_TEXT = """\
// Written by provision: unattended-upgrades leaves the GPU stack alone.
// A library upgraded under a loaded kernel module makes NVML answer "Driver/library version
// mismatch"; the next stack comes from the lock. Entries are the beginnings of package names.
Unattended-Upgrade::Package-Blacklist {
    "cuda-";
    "libcuda";
    "libnvidia-";
    "nvidia-";
    "xserver-xorg-video-nvidia";
};
"""
BLACKLIST_TEXT = """\
# Written by provision: the kernel's own driver must not take the GPU before NVIDIA's does.
blacklist nouveau
options nouveau modeset=0
"""


def images(context):
    """Versions of the installed kernel images, oldest first."""
    prefix = "/boot/vmlinuz-"
    versions = [path[len(prefix) :] for path in context.glob(prefix + "*")]
    return sorted(versions, key=functools.cmp_to_key(debian_versions.compare))


def kernels(context):
    """Kernels that must have the module: the next to boot, and the running one if it is ours."""
    found = images(context)[-1:]
    running = context.platform.get("kernel")
    if not context.container and running and running not in found:
        found.append(running)
    return found


def older_initramfs(context):
    """Initramfs images written before the blacklist: they still bring nouveau up at boot."""
    blacklist = context.stat(BLACKLIST)
    if blacklist is None or not context.exists("/usr/sbin/update-initramfs"):
        return []
    old = []
    for path in context.glob("/boot/initrd.img-*"):
        found = context.stat(path)
        if path.endswith((".old-dkms", ".bak")) or ".dpkg-" in path or found is None:
            continue
        if found.st_mtime < blacklist.st_mtime:
            old.append(path)
    return old


def persistence(context):
    """ "enabled", "disabled", "masked", "static" (nothing to enable) or IDLE; None without one."""
    own = "/etc/systemd/system/" + UNIT
    if context.readlink(own) == "/dev/null":
        return "masked" if context.exists("/lib/systemd/system/" + UNIT) else None
    if not context.exists("/lib/systemd/system/" + UNIT) and not context.exists(own):
        return None
    # Ubuntu's unit has no such section: udev starts it with the first device of the driver.
    text = context.read(own) or context.read("/lib/systemd/system/" + UNIT) or ""
    if "--no-persistence-mode" in text:
        return IDLE
    link = "/etc/systemd/system/multi-user.target.wants/" + UNIT
    if context.lstat(link) is not None:
        return "enabled"
    return "disabled" if "[Install]" in text.splitlines() else "static"


def alternatives(context, names):
    """{group: what is wrong} of the groups whose package is wished and installed."""
    found = {}
    for group, package in ALTERNATIVES.items():
        if package not in names or package not in context.packages:
            continue
        record = package_files.alternative(context, group)
        if record is None:
            found[group] = {"record": None, "broken": []}
            continue
        broken = package_files.broken_links(context, record)
        choice = context.readlink("/etc/alternatives/" + group)
        if group == "nvidia" and CURRENT in record["choices"] and choice != CURRENT:
            broken = ["/etc/alternatives/" + group]
        if broken:
            found[group] = {"record": record["mode"], "broken": broken}
    return found


def repository(context, row):
    """{"file", "url", "fault"} of NVIDIA's repository; None where the driver is not from there."""
    wish = row.get("repository") or {}
    if driver_method.source(row) != driver_method.NETWORK or not wish:
        return None
    url = apt.bare(context.options.get("nvidia_driver_repository_url") or wish["url"])
    # CUDA's own source of the same repository serves both.
    files = (REPOSITORY, SHARED_REPOSITORY)
    faults = [driver_method.sources(context, url, wish["suite"], file) for file in files]
    return {"file": files[0], "url": url, "fault": None if None in faults else faults[0]}


def _logins(context, row):
    """{name of the file: address} of the mirrors that apt may have to log in to."""
    options = context.options
    if driver_method.source(row) == driver_method.RUNFILE:
        return {}
    found = {"provision-nvidia-driver": options.get("nvidia_driver_mirror")}
    wish, url = row.get("repository") or {}, options.get("nvidia_driver_repository_url")
    if driver_method.source(row) == driver_method.NETWORK and wish and url:
        bare = apt.bare(url)
        if driver_method.sources(context, bare, wish["suite"], SHARED_REPOSITORY) is not None:
            found["provision-nvidia-driver-repository"] = url
    return found


def look(context):
    row = context.part(NAME)
    names = list(driver_packages.all_packages(row)) if row else []
    scope = driver_packages.resolve_scope(context.options, context.container)
    pins = context.read(PINS)
    runfile = driver_method.runfile(context)
    version = driver_method.packaged(context, names)
    if row and driver_method.source(row) == driver_method.RUNFILE and runfile is not None:
        version = runfile["version"] or version
    return {
        "version": version,
        "packages": dpkg.select(context, [*names, "dkms", "libcuda1"]),
        "runfile": runfile,
        "method": driver_method.of_pins(pins),
        "leftovers": driver_method.leftovers(context, row, names, pins) if row else {},
        "older_modules": driver_method.older_modules(context, row) if row else [],
        "headers_lacking": driver_method.headers_lacking(context),
        "repository": repository(context, row),
        "switches": driver_method.switches(context),
        "fabric": driver_method.fabric(context, row.get("branch")),
        "container": context.container,
        "scope": scope,
        "loaded": (context.read("/sys/module/nvidia/version") or "").strip() or None,
        "nouveau_loaded": context.exists("/sys/module/nouveau"),
        "gpus": len(platform.gpus(context)),
        "device": context.exists("/dev/nvidiactl"),
        "kernels": kernels(context),
        "modules": {
            kernel: driver_method.module(context, kernel, row) for kernel in kernels(context)
        },
        "pins": pins,
        "upgrades": context.read(UPGRADES),
        "blacklist": context.read(BLACKLIST),
        "initramfs_older": older_initramfs(context),
        "persistence": persistence(context),
        "written": file_state.faults(context, [PINS, UPGRADES, BLACKLIST]),
        "logins": logins.look(context, _logins(context, row)) if row else {},
        "alternatives": alternatives(context, names),
        "flaws": package_files.flaws(
            context, driver_packages.wanted_packages(row, scope, context.options) if row else []
        ),
    }


def _file(path, seen, expected, found, reason):
    old = file_state.complaint(seen, expected, (found.get("written") or {}).get(path))
    return [] if old is None else [change(NAME, path, old, "as written", reason)]


def _link_changes(found):
    changes = []
    for group, seen in sorted((found.get("alternatives") or {}).items()):
        package = ALTERNATIVES[group]
        item = "alternatives " + group
        if seen["record"] is None:
            reason = "update-alternatives has no record of the group"
            repair = {"nvidia_driver_reinstall": [package]}
            changes.append(change(NAME, item, None, package, reason, repair=repair))
            continue
        reason = "programs and the loader find the driver through these links"
        old = "wrong: " + ", ".join(seen["broken"][:3])
        if len(seen["broken"]) > 3:
            old += " and {0} more".format(len(seen["broken"]) - 3)
        repair = {"nvidia_driver_alternatives": [group]}
        changes.append(change(NAME, item, old, CURRENT, reason, repair=repair))
    return changes


def _kernel_changes(row, found):
    changes = []
    if not found["kernels"]:
        changes.append(
            change(NAME, "kernel module", None, row["version"], "no kernel image is installed")
        )
    for kernel in found["kernels"]:
        built = found["modules"].get(kernel)
        if built != row["version"]:
            reason = "this kernel would run without the driver"
            changes.append(
                change(NAME, "module for kernel " + kernel, built, row["version"], reason)
            )
    reason = "nouveau would take the GPU at boot"
    changes += _file(BLACKLIST, found["blacklist"], BLACKLIST_TEXT, found, reason)
    for path in found["initramfs_older"]:
        reason = "older than the blacklist: it brings nouveau up at boot"
        changes.append(change(NAME, path, "old", "rebuilt", reason))
    return changes


def _method_changes(row, found, options):
    """What another way, or another branch, left here, and what the row's own way lacks."""
    changes = []
    way = driver_method.source(row)
    runfile = found.get("runfile")
    if runfile is not None and way != driver_method.RUNFILE:
        reason = "its files shadow the packages'"
        changes.append(change(NAME, RUNFILE_ITEM, runfile["version"], None, reason))
    # Somebody else's packages are a reason to stop (foreign-driver) unless the wish says to switch.
    ours = found.get("method") is not None or way == driver_method.RUNFILE
    if ours or options.get("nvidia_driver_switch") == "switch":
        for name, version in sorted((found.get("leftovers") or {}).items()):
            reason = "it is of another driver than the lock's"
            changes.append(change(NAME, name, version, None, reason))
    if way == driver_method.RUNFILE:
        changes += _runfile_changes(row, runfile)
    seen = found.get("repository")
    if seen is not None and seen["fault"] is not None:
        reason = "the driver comes from NVIDIA's repository"
        changes.append(change(NAME, seen["file"], seen["fault"], seen["url"], reason))
    return changes


def _runfile_changes(row, seen):
    if seen is None:
        reason = "the driver is not installed"
        return [change(NAME, RUNFILE_ITEM, None, row["version"], reason)]
    if seen["version"] != row["version"]:
        reason = "another version than the lock's"
        return [change(NAME, RUNFILE_ITEM, seen["version"], row["version"], reason)]
    repair = {NAME + "_reinstall": [RUNFILE_ITEM]}
    reason = "it is a file of the driver"
    return [
        change(NAME, path, fault, row["version"], reason, repair=repair)
        for path, fault in sorted(seen["faults"].items())
    ]


def wants_fabric(options, found):
    """Whether this host is to run the fabric manager: "auto" is where an NVSwitch is."""
    wish = str(options.get("nvidia_driver_fabric_manager", "auto")).lower()
    return bool(found.get("switches")) if wish == "auto" else wish == "true"


def _fabric_changes(row, found, hold):
    """NVSwitch works with the very version of the driver alone."""
    seen = found["fabric"]
    name, version = seen["package"], seen["version"]
    if version is None or driver_method.upstream(version) != row["version"]:
        reason = "NVSwitch works only with the fabric manager of the driver's version"
        return [change(NAME, name, version, row["version"], reason)]
    changes = []
    if hold and seen["want"] != "hold":
        reason = "an upgrade could move it away from the driver"
        changes.append(change(NAME, name + " hold", "not held", "held", reason))
    if seen["unit"] != "enabled":
        reason = "without it CUDA answers 'system not yet initialized'"
        changes.append(change(NAME, driver_method.FABRIC_UNIT, seen["unit"], "enabled", reason))
    return changes


def _build_changes(found):
    """What DKMS needs to build the module, now and for the kernels to come."""
    changes = []
    if found["packages"].get("dkms", {}).get("status") != "installed":
        changes.append(
            change(NAME, "dkms", None, "installed", "the module can't be built without it")
        )
    for name in found.get("headers_lacking") or []:
        reason = "the next kernel would come without its headers, and get no module"
        changes.append(change(NAME, name, None, "installed", reason))
    for name in found.get("older_modules") or []:
        reason = "DKMS would build it for the next kernel too"
        changes.append(change(NAME, "module " + name, "kept", None, reason))
    return changes


def _running_changes(row, found):
    """What only a new start of the kernel, or of the module, can put right."""
    item = "running driver"
    if found["nouveau_loaded"]:
        reason = "nouveau is loaded and can't be replaced under a running system"
        return [change(NAME, item, "nouveau", row["version"], reason, reboot=True)]
    if found["loaded"] is not None and found["loaded"] != row["version"]:
        reason = "the loaded module is not the installed one"
        return [change(NAME, item, found["loaded"], row["version"], reason, reboot=True)]
    if found["loaded"] is None and found["gpus"]:
        return [change(NAME, item, None, row["version"], "the module is not loaded")]
    return []


def differ(row, found, options):
    """Changes that make the driver what the row says, in this scope. Pure."""
    hold = options.get("nvidia_driver_hold", True)
    scope = driver_packages.resolve_scope(options, found["container"])
    wanted = driver_packages.wanted_packages(row, scope, options)
    exact = {name: wanted[name] for name in wanted if not driver_method.OF_KERNEL.match(name)}
    changes = dpkg.package_changes(NAME, exact, found["packages"], hold)
    for name in sorted(set(wanted) - set(exact) - set(found["packages"])):
        reason = "the package is not installed"
        changes.append(change(NAME, name, None, wanted[name], reason))
    changes += _method_changes(row, found, options)
    changes += _file(
        PINS, found["pins"], driver_packages.pins_text(row), found, "apt would take a newer branch"
    )
    if hold:
        reason = "unattended-upgrades would move the driver"
        changes += _file(UPGRADES, found["upgrades"], UPGRADES_TEXT, found, reason)
    elif found["upgrades"] is not None:
        changes.append(change(NAME, UPGRADES, "present", None, "holding was switched off"))
    changes += logins.differ(NAME, found.get("logins") or {})
    changes += _link_changes(found)
    changes += package_files.flaw_changes(NAME, found.get("flaws") or [])
    if scope == "full":
        if not driver_method.prebuilt(row):
            changes += _build_changes(found)
        if wants_fabric(options, found):
            changes += _fabric_changes(row, found, hold)
        changes += _kernel_changes(row, found)
        if not found["container"]:
            changes += _running_changes(row, found)
    # Without a device the daemon has nothing to hold and would be a failed unit.
    can_run = scope == "full" or found["device"]
    wished = options.get("nvidia_driver_persistence", True)
    if wished and can_run and found["persistence"] in ("disabled", "masked", IDLE):
        reason = "the driver would be unloaded between jobs"
        changes.append(change(NAME, UNIT, found["persistence"], "enabled", reason))
    # Debian's package enables it by itself.
    if not wished and found["persistence"] == "enabled":
        reason = "persistence was switched off"
        changes.append(change(NAME, UNIT, "enabled", "disabled", reason))
    return changes
