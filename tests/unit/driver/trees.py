"""Recorded pieces of hosts, laid out as files under a root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import driver_packages, persistence
from gpu_stack.host.context import Context, Result

from tests.debian11 import stack
from tests.host_tree import tree as tree

ROW: dict[str, Any] = stack(
    nvidia_driver={
        "packages": {
            "userspace": {
                "libcuda1": "470.256.02-2",
                "nvidia-smi": "470.256.02-2",
                "nvidia-persistenced": "470.103.01-2~deb11u1",
            },
            "kernel": {"nvidia-kernel-dkms": "470.256.02-2", "nvidia-modprobe": "470.182.03-1"},
            "desktop": {"nvidia-driver": "470.256.02-2"},
        },
    },
    cuda={"packages": {"runtime": {"libcudart11.0": "11.2.152~11.2.2-3+deb11u3"}}},
    tensorflow={},
)
DRIVER: dict[str, Any] = ROW["nvidia_driver"]

KERNEL = "5.10.0-46-amd64"

# /var/lib/dpkg/status of the host on which the role ran, fields as dpkg wrote them.
STANZA = (
    "Package: {name}\nStatus: {want} ok {status}\nPriority: optional\nSection: non-free/libs\n"
    "Architecture: amd64\nVersion: {version}\nDescription: x\n"
)


def status(*packages: tuple[str, ...]) -> str:
    """dpkg's status file of (name, version[, want[, status]])."""
    texts = []
    for package in packages:
        name, version, want, state = (
            (*package, "hold", "installed")[:4]
            if len(package) == 2
            else (
                *package,
                "installed",
            )[:4]
        )
        texts.append(STANZA.format(name=name, version=version, want=want, status=state))
    return "\n".join(texts)


def file_lists(*packages: tuple[str, ...]) -> dict[str, str]:
    """dpkg's lists of the packages' files, which are of no package here but for a directory."""
    return {f"/var/lib/dpkg/info/{package[0]}.list": "/.\n" for package in packages}


def settled(row: dict[str, Any], *packages: tuple[str, ...]) -> dict[str, str]:
    """Files of a machine with these packages, on which the rest of the driver is as its row says.

    Its module is loaded; the blacklist is to be older than the kernel's initramfs.
    """
    return {
        "/var/lib/dpkg/status": status(*packages),
        **file_lists(*packages),
        nvidia_driver.PINS: driver_packages.pins_text(row),
        nvidia_driver.UPGRADES: nvidia_driver.UPGRADES_TEXT,
        nvidia_driver.BLACKLIST: nvidia_driver.BLACKLIST_TEXT,
        persistence.CONDITION: persistence.CONDITION_TEXT,
        f"/boot/vmlinuz-{KERNEL}": "",
        "/sys/module/nvidia/version": row["version"] + "\n",
        "/dev/nvidiactl": "",
    }


def context(
    root: Path,
    *,
    container: bool = False,
    options: dict[str, Any] | None = None,
    answers: Mapping[str, Result] | None = None,
    driver: dict[str, Any] = DRIVER,
    distribution: str = "debian",
) -> Context:
    """The host under `root`; `answers` are recorded outputs by the program's name."""

    def run(argv: list[str]) -> Result:
        return (answers or {}).get(argv[0], Result(127, "", "not found"))

    row = {**ROW, "nvidia_driver": driver}
    made = Context(root=str(root), options=options or {}, row=row, runner=run)
    made.platform = {"architecture": "x86_64", "kernel": KERNEL, "distribution": distribution}
    made.container = container
    return made


def age(root: Path, path: str, when: int) -> None:
    os.utime(root / path.lstrip("/"), (when, when))


def places(cudnn_root: str) -> set[str]:
    """Where a run puts something, and so needs room."""
    usual = {"/usr", "/var/cache/apt", "/var/lib/dkms", "/var/tmp", "/opt/tensorflow"}
    return usual | {cudnn_root}
