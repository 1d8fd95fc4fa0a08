"""The NVIDIA driver: its packages, what keeps them at their version, and the kernel's part.

A driver goes wrong quietly: an unattended upgrade moves the library away from the loaded module, a
new kernel boots without a module, an old initramfs brings nouveau back. None of that shows in a
package list, so the look reads pins, holds, DKMS's links, the age of the initramfs and /sys/module.
"""

import functools

from . import dpkg, platform, written
from .change import change

NAME = "nvidia_driver"

PINS = "/etc/apt/preferences.d/provision-nvidia-driver"
UPGRADES = "/etc/apt/apt.conf.d/51provision-gpu-stack"
BLACKLIST = "/etc/modprobe.d/provision-nouveau.conf"
UNIT = "nvidia-persistenced.service"

# Debian puts the driver's programs and libraries in their places through update-alternatives:
# {group: the package whose scripts make it}.
ALTERNATIVES = {"glx": "glx-alternative-nvidia", "nvidia": "nvidia-alternative"}
CURRENT = "/usr/lib/nvidia/current"

# Debian's name of the module in DKMS and on disk; /etc/modprobe.d/nvidia.conf makes `modprobe
# nvidia` load it.
MODULE = "nvidia-current"

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


def pins_text(row):
    """apt_preferences(5): the driver's source version for all siblings, then the exceptions."""
    packages = all_packages(row)
    main = row["packages"]["userspace"]["nvidia-smi"]
    text = (
        "# Written by provision: the driver stays {0} on this host.\n"
        "# Debian's security archive and NVIDIA's repositories carry newer drivers under the same\n"
        '# names; without these pins a later "apt install" of any sibling would ask for the newer '
        "one.\n"
        "Package: libcuda1 *nvidia*\nPin: version {1}\nPin-Priority: 1001\n"
    ).format(row["version"], main)
    for name in sorted(packages):
        if packages[name] != main:
            text += "\nPackage: {0}\nPin: version {1}\nPin-Priority: 1001\n".format(
                name, packages[name]
            )
    return text


def all_packages(row):
    """{name: version} of every set the lock names."""
    packages = {}
    for one in ("userspace", "kernel", "desktop"):
        packages.update(row["packages"].get(one) or {})
    return packages


def wanted_packages(row, scope, options):
    """{name: version} of the sets that this scope and profile install."""
    packages = dict(row["packages"]["userspace"])
    if scope == "full":
        packages.update(row["packages"].get("kernel") or {})
        if options.get("nvidia_driver_profile", "compute") == "desktop":
            packages.update(row["packages"].get("desktop") or {})
    return packages


def resolve_scope(options, container):
    """ "userspace" or "full"; "auto" is userspace in a container, whose kernel is not its own."""
    scope = options.get("nvidia_driver_scope") or "auto"
    if scope != "auto":
        return scope
    return "userspace" if container else "full"


def images(context):
    """Versions of the installed kernel images, oldest first."""
    prefix = "/boot/vmlinuz-"
    versions = [path[len(prefix) :] for path in context.glob(prefix + "*")]
    return sorted(versions, key=functools.cmp_to_key(dpkg.compare))


def kernels(context):
    """Kernels that must have the module: the next to boot, and the running one if it is ours."""
    found = images(context)[-1:]
    running = context.platform.get("kernel")
    if not context.container and running and running not in found:
        found.append(running)
    return found


def module(context, kernel):
    """The driver version that DKMS installed for one kernel; None without one.

    DKMS keeps a link kernel-<kernel>-<architecture> to <version>/<kernel>/<architecture> for what
    is installed; a link without the file means that somebody took the module away.
    """
    directory = "/lib/modules/{0}/updates/dkms".format(kernel)
    if not context.glob("{0}/{1}.ko*".format(directory, MODULE)):
        return None
    base = "/var/lib/dkms/" + MODULE
    for name in context.listdir(base):
        if name.startswith("kernel-{0}-".format(kernel)):
            return (context.readlink(base + "/" + name) or "").split("/")[0] or None
    return None


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
    """ "enabled", "disabled" or "masked"; None without the unit."""
    if not context.exists("/lib/systemd/system/" + UNIT):
        return None
    if context.readlink("/etc/systemd/system/" + UNIT) == "/dev/null":
        return "masked"
    link = "/etc/systemd/system/multi-user.target.wants/" + UNIT
    return "enabled" if context.lstat(link) is not None else "disabled"


def alternatives(context, names):
    """{group: what is wrong} of the groups whose package is wished and installed."""
    found = {}
    for group, package in ALTERNATIVES.items():
        if package not in names or package not in context.packages:
            continue
        record = dpkg.alternative(context, group)
        if record is None:
            found[group] = {"record": None, "broken": []}
            continue
        broken = dpkg.broken_links(context, record)
        choice = context.readlink("/etc/alternatives/" + group)
        if group == "nvidia" and CURRENT in record["choices"] and choice != CURRENT:
            broken = ["/etc/alternatives/" + group]
        if broken:
            found[group] = {"record": record["mode"], "broken": broken}
    return found


def look(context):
    row = context.part(NAME)
    installed = context.packages
    libcuda = installed.get("libcuda1")
    names = list(all_packages(row)) if row else []
    scope = resolve_scope(context.options, context.container)
    return {
        "version": libcuda["version"].split("-")[0] if libcuda is not None else None,
        "packages": dpkg.select(context, [*names, "dkms", "libcuda1"]),
        "container": context.container,
        "scope": scope,
        "loaded": (context.read("/sys/module/nvidia/version") or "").strip() or None,
        "nouveau_loaded": context.exists("/sys/module/nouveau"),
        "gpus": len(platform.gpus(context)),
        "device": context.exists("/dev/nvidiactl"),
        "kernels": kernels(context),
        "modules": {kernel: module(context, kernel) for kernel in kernels(context)},
        "pins": context.read(PINS),
        "upgrades": context.read(UPGRADES),
        "blacklist": context.read(BLACKLIST),
        "initramfs_older": older_initramfs(context),
        "persistence": persistence(context),
        "written": written.faults(context, [PINS, UPGRADES, BLACKLIST]),
        "alternatives": alternatives(context, names),
        "flaws": dpkg.flaws(context, wanted_packages(row, scope, context.options) if row else []),
    }


def _file(path, seen, expected, found, reason):
    old = written.complaint(seen, expected, (found.get("written") or {}).get(path))
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
    scope = resolve_scope(options, found["container"])
    wanted = wanted_packages(row, scope, options)
    changes = dpkg.package_changes(NAME, wanted, found["packages"], hold)
    changes += _file(PINS, found["pins"], pins_text(row), found, "apt would take a newer branch")
    if hold:
        reason = "unattended-upgrades would move the driver"
        changes += _file(UPGRADES, found["upgrades"], UPGRADES_TEXT, found, reason)
    elif found["upgrades"] is not None:
        changes.append(change(NAME, UPGRADES, "present", None, "holding was switched off"))
    changes += _link_changes(found)
    changes += dpkg.flaw_changes(NAME, found.get("flaws") or [])
    if scope == "full":
        if found["packages"].get("dkms", {}).get("status") != "installed":
            changes.append(
                change(NAME, "dkms", None, "installed", "the module can't be built without it")
            )
        changes += _kernel_changes(row, found)
        if not found["container"]:
            changes += _running_changes(row, found)
    # Without a device the daemon has nothing to hold and would be a failed unit.
    can_run = scope == "full" or found["device"]
    wished = options.get("nvidia_driver_persistence", True)
    if wished and can_run and found["persistence"] in ("disabled", "masked"):
        reason = "the driver would be unloaded between jobs"
        changes.append(change(NAME, UNIT, found["persistence"], "enabled", reason))
    # Debian's package enables it by itself.
    if not wished and found["persistence"] == "enabled":
        reason = "persistence was switched off"
        changes.append(change(NAME, UNIT, "enabled", "disabled", reason))
    return changes
