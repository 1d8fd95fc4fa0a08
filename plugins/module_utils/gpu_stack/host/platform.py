"""The platform and the GPUs of this host, by which the lock's row is chosen.

A run gathers no facts otherwise, so this reads the few files that matter.
"""

from __future__ import annotations

import os

from ..change import blocker
from ..type_checking import TYPE_CHECKING
from . import gpu_models

if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Facts, Options, Row
    from .context import Context

SIMULATED = "/etc/gpu-simulated"
SIMULATED_OS = "/etc/os-simulated"
PCI = "/sys/bus/pci/devices"

NVIDIA = "0x10de"
# PCI classes: VGA controller (a GPU with display) and 3D controller (a compute GPU).
GPU_CLASSES = ("0x0300", "0x0302")


def os_release(text: str) -> dict[str, str]:
    """os-release(5) as a dict."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[name] = value
    return values


def look(context: Context) -> dict[str, Any]:
    """{distribution, release, architecture, kernel, pretty}, as the lock's rows name them.

    `userland`, on a simulated host: the distribution that it really is. Only a label for reports.
    """
    release = os_release(
        context.read("/etc/os-release") or context.read("/usr/lib/os-release") or ""
    )
    machine = os.uname()
    if context.root == "/":
        kernel, architecture = machine[2], machine[4]
    else:
        kernel = (context.read("/proc/sys/kernel/osrelease") or machine[2]).strip()
        architecture = (context.read("/proc/sys/kernel/arch") or machine[4]).strip()
    platform = {
        "distribution": release.get("ID", "unknown"),
        "release": release.get("VERSION_ID", ""),
        "architecture": architecture,
        "kernel": kernel,
        "pretty": release.get("PRETTY_NAME", "unknown"),
    }
    simulated = os_release(context.read(SIMULATED_OS) or "")
    if simulated.get("userland"):
        platform["userland"] = simulated["userland"]
    return platform


def container(context: Context) -> bool:
    """True in a container, where no kernel module can be loaded.

    systemd writes /run/systemd/container in containers it runs in; podman and docker leave a file
    of their own; a virtual machine has none of them.
    """
    if context.read("/run/systemd/container"):
        return True
    # As systemd-detect-virt does: managers that speak systemd's container interface.
    if context.exists("/run/host/container-manager"):
        return True
    if context.exists("/run/.containerenv") or context.exists("/.dockerenv"):
        return True
    environment = context.read_bytes("/proc/1/environ") or b""
    return any(part.startswith(b"container=") for part in environment.split(b"\0"))


def simulated_gpu(context: Context) -> bool:
    """True on a host whose GPU is simulated. Only a label for reports."""
    return context.exists(SIMULATED)


def gpus(context: Context) -> list[dict[str, Any]]:
    """NVIDIA's GPUs on the PCI bus: [{index, name, pci, device, class, usable}].

    The bus has no names, and does not show a lost GPU: `name` is None and `usable` True until the
    proof asks NVML.
    """
    devices: list[dict[str, Any]] = []
    for address in context.listdir(PCI):
        base = "{0}/{1}/".format(PCI, address)
        if (context.read(base + "vendor") or "").strip().lower() != NVIDIA:
            continue
        kind = (context.read(base + "class") or "").strip().lower()
        if kind[:6] not in GPU_CLASSES:
            continue
        devices.append(
            {
                "index": len(devices),
                "name": None,
                "pci": address,
                "device": (context.read(base + "device") or "").strip().lower(),
                "class": kind,
                "usable": True,
            }
        )
    return devices


def words(row: Row) -> str:
    """ "debian 12 x86_64", of a platform as found or as in the lock's rows."""
    return " ".join(
        str(row.get(key, "")) for key in ("distribution", "release", "architecture")
    ).strip()


def identity(row: Row) -> str:
    """The platform's id as the catalog builds it: "debian12", "ubuntu2004"."""
    name: str = row["distribution"] + row["release"].replace(".", "")
    return name if row["architecture"] == "x86_64" else name + "-" + row["architecture"]


def not_as_declared(
    lock: dict[str, Any] | None, options: Options, facts: Facts
) -> list[dict[str, Any]]:
    """Blockers of a host that differs from gpu_platform or gpu_models of the inventory.

    The lock was made for those: its driver may not be the one that the GPUs need.
    """
    blockers = []
    hint = "correct the inventory, or the address of the host; then run `provision lock`"
    platform_said = options.get("gpu_platform") or ""
    if platform_said and platform_said != identity(facts["platform"]):
        message = "gpu_platform says {0}, and this host is {1}".format(
            platform_said, words(facts["platform"])
        )
        blockers.append(blocker("another-platform", None, message, hint))
    models_said = options.get("gpu_models") or []
    if models_said:
        blockers += _other_models(lock, models_said, facts["gpus"], hint)
    return blockers


def _other_models(
    lock: dict[str, Any] | None, models: list[str], gpus_found: list[dict[str, Any]], hint: str
) -> list[dict[str, Any]]:
    """Blockers of GPUs that gpu_models does not name, and of models that are not on the bus."""
    devices_of = gpu_models.named(lock, models)
    lacking = [word for word in models if devices_of[word] is None]
    if lacking:
        message = "gpu_models says {0}, which the lock knows nothing of".format(", ".join(lacking))
        return [blocker("other-gpus", None, message, "run `provision lock`, then render")]
    devices = [gpu_models.bare(gpu["device"]) for gpu in gpus_found]
    meant = [device for word in models for device in devices_of[word] or ()]
    absent = [word for word in models if not set(devices_of[word] or ()) & set(devices)]
    if not absent and all(device in meant for device in devices):
        return []
    seen = ", ".join("10de:" + device for device in sorted(set(devices)))
    message = "gpu_models says {0}, and on this host's PCI bus there is {1}".format(
        ", ".join(models), seen or "no NVIDIA GPU"
    )
    return [blocker("other-gpus", None, message, hint)]
