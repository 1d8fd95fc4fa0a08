"""The machine: distribution, container, GPUs on the bus, kernel module, receipt."""

from __future__ import annotations

import glob
import json
import os
from typing import Any

from .system import read


def os_release() -> dict[str, str]:
    """The fields of os-release (ID, VERSION_ID, ...), unquoted."""
    fields = {}
    for line in (read("/etc/os-release") or read("/usr/lib/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        fields[key.strip()] = value.strip().strip("\"'")
    return fields


def in_container() -> bool:
    """Is this a container, by systemd's note or by the files that docker and podman leave?"""
    if (read("/run/systemd/container") or "").strip():
        return True
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def pci_functions(folder: str = "/sys/bus/pci/devices") -> list[dict[str, str]]:
    """NVIDIA's functions on the PCI bus: [{"address", "class", "device"}]."""
    functions = []
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        if (read(os.path.join(path, "vendor")) or "").strip() == "0x10de":
            functions.append(
                {
                    "address": os.path.basename(path),
                    "class": (read(os.path.join(path, "class")) or "").strip(),
                    "device": (read(os.path.join(path, "device")) or "").strip(),
                }
            )
    return functions


def kernel_module() -> dict[str, Any]:
    """NVIDIA's module in the running kernel, by /proc and /sys, and whether nouveau is loaded."""
    return {
        "proc": read("/proc/driver/nvidia/version"),
        "sys": (read("/sys/module/nvidia/version") or "").strip() or None,
        "nouveau": os.path.isdir("/sys/module/nouveau"),
    }


def receipt(path: str = "/var/lib/provision/receipt.json") -> dict[str, Any]:
    """The receipt's lock digest and stack, or why it can't be read."""
    content = read(path)
    if content is None:
        return {"error": f"{path} can't be read"}
    try:
        data = json.loads(content)
        return {key: data.get(key) for key in ("lock_digest", "stack", "written")}
    except (ValueError, AttributeError):
        return {"error": f"{path} is not JSON"}
