"""The NVIDIA driver: its packages, what pins them to their version, and the kernel module.

A driver breaks quietly: an unattended upgrade replaces the library under the loaded module, a new
kernel boots without a module, an old initramfs loads nouveau again. A package list shows none of
that, so the look reads pins, holds, DKMS's links, the age of the initramfs and /sys/module.
"""

from __future__ import annotations

import functools

from ...change import change
from ...host import apt, debian_versions, dpkg, file_state, logins, package_files, platform
from ...type_checking import TYPE_CHECKING
from . import (
    built_modules,
    displaced,
    driver_method,
    driver_packages,
    fabric_manager,
    persistence,
    running_driver,
    signing,
    signing_files,
)

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "nvidia_driver"

PINS = "/etc/apt/preferences.d/provision-nvidia-driver"
UPGRADES = "/etc/apt/apt.conf.d/51provision-gpu-stack"
BLACKLIST = "/etc/modprobe.d/provision-nouveau.conf"

# Debian installs the driver's programs and libraries through update-alternatives:
# {group: the package whose scripts make it}.
ALTERNATIVES = {"glx": "glx-alternative-nvidia", "nvidia": "nvidia-alternative"}
CURRENT = "/usr/lib/nvidia/current"

# Debian's name of the module in DKMS and on disk; /etc/modprobe.d/nvidia.conf makes `modprobe
# nvidia` load it.
MODULE = driver_method.DEBIAN_MODULE
notices = running_driver.notices

# The plan's name of a driver that is not a package.
RUNFILE_ITEM = "driver (.run)"
# apt's source of NVIDIA's repository. CUDA's own file serves where CUDA comes from the same one:
# apt refuses to work where two sources of one repository name different keys.
REPOSITORY = "/etc/apt/sources.list.d/provision-nvidia-driver-repository.sources"
SHARED_REPOSITORY = "/etc/apt/sources.list.d/provision-cuda.sources"

# The names of the mirror's source and of its login file.
MIRROR = "provision-nvidia-driver"

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


def images(context: Context) -> list[str]:
    """Versions of the installed kernel images, oldest first."""
    prefix = "/boot/vmlinuz-"
    versions = [path[len(prefix) :] for path in context.glob(prefix + "*")]
    return sorted(versions, key=functools.cmp_to_key(debian_versions.compare))


def kernels(context: Context) -> list[str]:
    """Kernels that need the module: the next to boot, and the running one outside a container."""
    versions = images(context)[-1:]
    running = context.platform.get("kernel")
    if not context.container and running and running not in versions:
        versions.append(running)
    return versions


def older_initramfs(context: Context, files: Sequence[str] = (BLACKLIST,)) -> list[str]:
    """Paths of the initramfs images from before the first of these blacklists: they load nouveau.

    Only those of installed kernels: a copy, or the image of a kernel that is gone, is not booted,
    and update-initramfs rebuilds neither.
    """
    times = [info.st_mtime for info in map(context.stat, files) if info is not None]
    if not times or not context.exists("/usr/sbin/update-initramfs"):
        return []
    dates = {path: context.stat(path)
             for path in ("/boot/initrd.img-" + kernel for kernel in images(context))}  # fmt: skip
    return [path for path, info in dates.items() if info and info.st_mtime < min(times)]


def alternatives(context: Context, names: list[str]) -> dict[str, dict[str, Any]]:
    """{group: {"record", "broken"}} of broken alternatives of installed packages."""
    faults: dict[str, dict[str, Any]] = {}
    for group, package in ALTERNATIVES.items():
        if package not in names or package not in context.packages:
            continue
        record = package_files.alternative(context, group)
        if record is None:
            faults[group] = {"record": None, "broken": []}
            continue
        broken = package_files.broken_links(context, record)
        choice = context.readlink("/etc/alternatives/" + group)
        if group == "nvidia" and CURRENT in record["choices"] and choice != CURRENT:
            broken = ["/etc/alternatives/" + group]
        if broken:
            faults[group] = {"record": record["mode"], "broken": broken}
    return faults


def repository(context: Context, row: Row) -> dict[str, Any] | None:
    """{"file", "url", "fault"} of NVIDIA's repository; None if the driver is not from there."""
    locked = row.get("repository") or {}
    if driver_method.source(row) != driver_method.NETWORK or not locked:
        return None
    url = apt.bare(context.options.get("nvidia_driver_repository_url") or locked["url"])
    # CUDA's own source of the same repository serves both.
    files = (REPOSITORY, SHARED_REPOSITORY)
    faults = [driver_method.sources(context, url, locked["suite"], file) for file in files]
    return {"file": files[0], "url": url, "fault": None if None in faults else faults[0]}


def _logins(context: Context, row: Row) -> dict[str, Any]:
    """{name of apt's login file: address} of mirrors that may need a login."""
    options = context.options
    if driver_method.source(row) == driver_method.RUNFILE:
        return {}
    addresses = {MIRROR: options.get("nvidia_driver_mirror")}
    locked, url = row.get("repository") or {}, options.get("nvidia_driver_repository_url")
    if driver_method.source(row) == driver_method.NETWORK and locked and url:
        bare = apt.bare(url)
        if driver_method.sources(context, bare, locked["suite"], SHARED_REPOSITORY) is not None:
            addresses["provision-nvidia-driver-repository"] = url
    return addresses


def look(context: Context) -> dict[str, Any]:
    """State of the driver on the host."""
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
        "metapackages_lacking": built_modules.lacking(context, row, scope) if row else [],
        "repository": repository(context, row),
        "switches": driver_method.switches(context),
        "fabric": driver_method.fabric(context, row.get("branch")),
        "container": context.container,
        "scope": scope,
        **running_driver.look(context, row.get("version")),
        "gpus": len(platform.gpus(context)),
        "device": context.exists("/dev/nvidiactl"),
        "kernels": kernels(context),
        "modules": {
            kernel: driver_method.module(context, kernel, row) for kernel in kernels(context)
        },
        "signing": signing_files.look(context, signing.dkms_signs_always(context)),
        "signatures": signing.verdicts(context, kernels(context), driver_method.loaded_as(row)),
        "pins": pins,
        "upgrades": context.read(UPGRADES),
        "blacklist": context.read(BLACKLIST),
        "initramfs_older": older_initramfs(context),
        "persistence": persistence.look(context),
        "persistence_condition": context.read(persistence.CONDITION),
        "persistence_unit": persistence.own_unit(context),
        "written": file_state.faults(
            context, [PINS, UPGRADES, BLACKLIST, persistence.CONDITION, persistence.OWN]
        ),
        "logins": logins.look(context, _logins(context, row)) if row else {},
        # A .run file needs no archive.
        "mirror_left": logins.left(context, MIRROR, context.options.get("nvidia_driver_mirror"))
        if row and driver_method.source(row) != driver_method.RUNFILE
        else [],
        "alternatives": alternatives(context, names),
        "flaws": package_files.flaws(
            context, driver_packages.wanted_packages(row, scope, context.options) if row else []
        ),
    }


def _file(
    path: str, content: str | None, expected: str, state: State, reason: str
) -> list[dict[str, Any]]:
    old = file_state.complaint(content, expected, (state.get("written") or {}).get(path))
    return [] if old is None else [change(NAME, path, old, "as written", reason)]


def _link_changes(state: State) -> Changes:
    changes = []
    for group, fault in sorted((state.get("alternatives") or {}).items()):
        package = ALTERNATIVES[group]
        item = "alternatives " + group
        if fault["record"] is None:
            reason = "update-alternatives has no record of the group"
            repair = {"nvidia_driver_reinstall": [package]}
            changes.append(change(NAME, item, None, package, reason, repair=repair))
            continue
        reason = "programs and the loader find the driver through these links"
        old = "wrong: " + ", ".join(fault["broken"][:3])
        if len(fault["broken"]) > 3:
            old += " and {0} more".format(len(fault["broken"]) - 3)
        repair = {"nvidia_driver_alternatives": [group]}
        changes.append(change(NAME, item, old, CURRENT, reason, repair=repair))
    return changes


def _kernel_changes(row: Row, state: State) -> Changes:
    changes = []
    refused = signing.refused(state.get("signatures") or {})
    if not state["kernels"]:
        changes.append(
            change(NAME, "kernel module", None, row["version"], "no kernel image is installed")
        )
    for kernel in state["kernels"]:
        built = state["modules"].get(kernel)
        if built != row["version"]:
            reason = "this kernel would run without the driver"
            changes.append(
                change(NAME, "module for kernel " + kernel, built, row["version"], reason)
            )
        elif not driver_method.prebuilt(row) and kernel in refused:
            reason = "Secure Boot is on, and the kernel would refuse it"
            item = "module for kernel " + kernel
            changes.append(change(NAME, item, refused[kernel], "signed", reason))
    reason = "nouveau would take the GPU at boot"
    changes += _file(BLACKLIST, state["blacklist"], BLACKLIST_TEXT, state, reason)
    for path in state["initramfs_older"]:
        reason = "older than the blacklist: it brings nouveau up at boot"
        changes.append(change(NAME, path, "old", "rebuilt", reason))
    return changes


def _method_changes(row: Row, state: State, options: Options) -> Changes:
    """Changes that remove another source's or branch's driver and complete the locked one's."""
    changes = []
    way = driver_method.source(row)
    runfile = state.get("runfile")
    if runfile is not None and way != driver_method.RUNFILE:
        reason = "its files shadow the packages'"
        changes.append(change(NAME, RUNFILE_ITEM, runfile["version"], None, reason))
    # Packages that the role did not install stop the run (foreign-driver) unless told to switch.
    ours = state.get("method") is not None or way == driver_method.RUNFILE
    if ours or options.get("nvidia_driver_switch") == "switch":
        for name, version in sorted((state.get("leftovers") or {}).items()):
            reason = "it is of another driver than the lock's"
            changes.append(change(NAME, name, version, None, reason))
    if way == driver_method.RUNFILE:
        changes += _runfile_changes(row, runfile)
    source = state.get("repository")
    if source is not None and source["fault"] is not None:
        reason = "the driver comes from NVIDIA's repository"
        changes.append(change(NAME, source["file"], source["fault"], source["url"], reason))
    return changes


def _runfile_changes(row: Row, installed: dict[str, Any] | None) -> Changes:
    if installed is None:
        reason = "the driver is not installed"
        return [change(NAME, RUNFILE_ITEM, None, row["version"], reason)]
    if installed["version"] != row["version"]:
        reason = "another version than the lock's"
        return [change(NAME, RUNFILE_ITEM, installed["version"], row["version"], reason)]
    repair = {NAME + "_reinstall": [RUNFILE_ITEM]}
    reason = "it is a file of the driver"
    return [
        change(NAME, path, fault, row["version"], reason, repair=repair)
        for path, fault in sorted(installed["faults"].items())
    ]


def _build_changes(state: State) -> Changes:
    """Changes that let DKMS build the module for present and future kernels."""
    changes = []
    if state["packages"].get("dkms", {}).get("status") != "installed":
        changes.append(
            change(NAME, "dkms", None, "installed", "the module can't be built without it")
        )
    for name in state.get("headers_lacking") or []:
        reason = "the next kernel would come without its headers, and get no module"
        changes.append(change(NAME, name, None, "installed", reason))
    for name in state.get("older_modules") or []:
        reason = "DKMS would build it for the next kernel too"
        changes.append(change(NAME, "module " + name, "kept", None, reason))
    return changes


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes that bring the driver to the row, in this scope. Pure."""
    row = stack[NAME]
    hold = options.get("nvidia_driver_hold", True)
    scope = driver_packages.resolve_scope(options, state["container"])
    versions = driver_packages.wanted_packages(row, scope, options)
    exact = {name: versions[name] for name in versions if not driver_method.OF_KERNEL.match(name)}
    changes: list[dict[str, Any]] = dpkg.package_changes(NAME, exact, state["packages"], hold)
    for name in state.get("metapackages_lacking") or []:
        reason = "the next kernel would come without the driver's module"
        changes.append(change(NAME, name, None, "installed", reason))
    changes += _method_changes(row, state, options)
    changes += _file(
        PINS, state["pins"], driver_packages.pins_text(row), state, "apt would take a newer branch"
    )
    if hold:
        reason = "unattended-upgrades would move the driver"
        changes += _file(UPGRADES, state["upgrades"], UPGRADES_TEXT, state, reason)
    elif state["upgrades"] is not None:
        changes.append(change(NAME, UPGRADES, "present", None, "holding was switched off"))
    changes += logins.differ(NAME, state.get("logins") or {})
    changes += logins.left_changes(NAME, state.get("mirror_left") or [])
    changes += _link_changes(state)
    changes += package_files.flaw_changes(NAME, state.get("flaws") or [])
    if scope == "full":
        if not driver_method.prebuilt(row):
            changes += _build_changes(state)
            changes += signing_files.differ(NAME, state.get("signing") or {})
        if fabric_manager.wanted(options, state.get("switches") or 0):
            changes += fabric_manager.differ(NAME, row, state, hold)
        changes += _kernel_changes(row, state)
        if not state["container"]:
            changes += running_driver.differ(NAME, row, state)
    changes += persistence.differ(NAME, row, state, options, scope)
    changes += displaced.differ(NAME, state, options)
    return changes


def named_packages(row: Row, context: Context) -> dict[str, str]:
    """{package: version} of the lock's packages that the role installs with apt."""
    scope = driver_packages.resolve_scope(context.options, context.container)
    return driver_packages.wanted_packages(row, scope, context.options)


def packages(row: Row, context: Context) -> dict[str, str]:
    """{package: version} that the role installs with apt, and those that came with them.

    The fabric manager, and the modules that metapackages brought, once they are there.
    """
    versions = dict(named_packages(row, context))
    if driver_packages.resolve_scope(context.options, context.container) == "full":
        if driver_method.prebuilt(row):
            versions.update(built_modules.owned(context, versions, kernels(context)))
        versions.update(fabric_manager.package(context, row))
    return versions


def survey(context: Context, facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `disturbs`: what whoever computes on a GPU would not outlive, in words.

    Notes as well which parts of another driver apt would remove.
    """
    from . import rules  # which imports this

    facts["state"][NAME]["displaced"] = displaced.parts(facts["preflight"]["transaction"])
    selected = [entry for entry in changes if entry["selected"] and entry["component"] == NAME]
    row = context.row or {}
    return {"disturbs": rules.disturbs(selected, context.options, row) if selected else ""}
