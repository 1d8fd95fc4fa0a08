"""What runs in the kernel against what is installed, and when a reboot is the cure.

It is one where nouveau has the GPU, or where the loaded module is of another version: neither goes
from a running system. A module that the kernel does not take is not cured by it. One that has been
done and changed nothing is noted, so that no host is rebooted at every run.
"""

from __future__ import annotations

from ...change import blocker, change
from ...host import boots, debian_versions, mapping
from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Row, Stack, State

ITEM = "running driver"
RECORD = "/var/lib/provision/nvidia-driver-reboot.json"
# What settles which driver a boot brings up.
AT_BOOT = (
    "/boot/initrd.img-*",
    "/etc/modprobe.d/*",
    "/lib/modules/*/updates/dkms/nvidia*",
    "/lib/modules/*/updates/nvidia*",
    "/lib/modules/*/kernel/drivers/video/nvidia*",
    "/lib/modules/*/kernel/nvidia-*/nvidia*",
)


def loaded(context: Context) -> str | None:
    """Version of the loaded module; None without one."""
    return (context.read("/sys/module/nvidia/version") or "").strip() or None


def nouveau(context: Context) -> bool:
    """Whether nouveau is in the kernel."""
    return context.exists("/sys/module/nouveau")


def reason(context: Context, version: str) -> str:
    """Why only a reboot brings this version into the kernel; "" where it takes none."""
    if nouveau(context):
        return "nouveau is loaded"
    old = loaded(context)
    if old is not None and old != version:
        return f"module {old} is loaded, {version} is installed"
    return ""


def request(context: Context, why: str) -> dict[str, Any]:
    """What is noted of a reboot for `why`: this boot, and the files that settle the next one."""
    files = {path: context.stat(path) for pattern in AT_BOOT for path in context.glob(pattern)}
    return {
        "reason": why,
        "boot": boots.current(context),
        "files": {path: [info.st_mtime_ns, info.st_size] for path, info in files.items() if info},
    }


def in_vain(context: Context, why: str) -> bool:
    """Whether the host was rebooted for `why`, and nothing that a boot brings up changed since."""
    noted = mapping.of(context.read(RECORD))
    if not why or noted is None or noted.get("reason") != why:
        return False
    now = request(context, why)
    # A run that was cut off between the note and the reboot has not rebooted.
    return bool(noted.get("boot") != now["boot"] and noted.get("files") == now["files"])


def hint(why: str) -> str:
    """What to look at where a reboot did not help."""
    if why.startswith("nouveau"):
        return (
            "Look for what loads nouveau in spite of the blacklist (lsinitramfs /boot/initrd.img-*"
            " | grep nouveau; grep -r nouveau /etc/modules /etc/modules-load.d; a kernel with it"
            " built in), have the initramfs built anew (update-initramfs -u -k all), then run"
            " again."
        )
    return (
        "Look for the module that the kernel finds first (modinfo -n nvidia; lsinitramfs"
        " /boot/initrd.img-* | grep nvidia), have the initramfs built anew (update-initramfs -u -k"
        " all), then run again."
    )


def look(context: Context, version: str | None) -> dict[str, Any]:
    """{"loaded", "nouveau_loaded", "reboot_in_vain"} of the host's kernel."""
    why = reason(context, version) if version else ""
    return {
        "loaded": loaded(context),
        "nouveau_loaded": nouveau(context),
        "reboot_in_vain": why if in_vain(context, why) else "",
    }


def differ(name: str, row: Row, state: State) -> Changes:
    """The change that needs a reboot, or the module to be loaded. Pure."""
    if not state["nouveau_loaded"] and state["loaded"] == row["version"]:
        return []
    old = "nouveau" if state["nouveau_loaded"] else state["loaded"]
    if old is None:
        reason = "the module is not loaded"
        return [change(name, ITEM, None, row["version"], reason)] if state["gpus"] else []
    if state.get("reboot_in_vain") and not _other_boot(row, state):
        reason = "a reboot did not change that"
        return [change(name, ITEM, old, row["version"], reason)]
    reason = "the loaded module is not the installed one"
    if state["nouveau_loaded"]:
        reason = "nouveau is loaded and can't be replaced under a running system"
    return [change(name, ITEM, old, row["version"], reason, reboot=True)]


def _other_boot(row: Row, state: State) -> bool:
    """Whether this run changes what a boot brings up: an initramfs, or a kernel's module."""
    modules = [state["modules"].get(kernel) for kernel in state["kernels"]]
    return bool(state["initramfs_older"]) or any(built != row["version"] for built in modules)


def notices(stack: Stack, facts: Facts) -> list[dict[str, Any]]:
    """The notice of an installed kernel that is newer than the running one. Pure."""
    state, version = facts["state"]["nvidia_driver"], stack["nvidia_driver"]["version"]
    running, newest = facts["platform"].get("kernel"), (state["kernels"] or [None])[0]
    if state["scope"] != "full" or facts["container"] or not running or not newest:
        return []
    if debian_versions.compare(newest, running) <= 0:
        return []
    built = state["modules"].get(newest) == version
    message = "kernel {0} is installed and waits for its boot; {1} is running. {2}".format(
        newest,
        running,
        f"Module {version} is built for it" if built else f"Module {version} is not there for it",
    )
    hint = "reboot when it suits, then run again: a module is tried on the running kernel alone"
    if not built:
        verb = "installs" if driver_method.prebuilt(stack["nvidia_driver"]) else "builds"
        hint = (
            f"apply {verb} the module; a reboot before that would leave the host without a driver"
        )
    return [blocker("kernel-waiting", "nvidia_driver", message, hint)]
