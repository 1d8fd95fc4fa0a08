"""The converged host whose stack has NVIDIA's container toolkit as well."""

from __future__ import annotations

import copy
from typing import Any

import converged_host as made
from converged_host import ELF, Host
from gpu_stack.components import nvidia_container_toolkit as toolkit

URL = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
NAMES = [
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
]
FILES = {name: f"/usr/lib/{name}" for name in NAMES}


def row(version: str) -> dict[str, Any]:
    return {
        "version": version,
        "packages": {"toolkit": dict.fromkeys(NAMES, f"{version}-1")},
        "repository": {
            "url": URL, "suite": "/", "key": "-----BEGIN\n\nabc\n", "fingerprints": ["A"],
        },
    }  # fmt: skip


def lock(version: str) -> dict[str, Any]:
    text = copy.deepcopy(made.LOCK)
    text["stacks"]["debian11-small"][toolkit.NAME] = row(version)
    return text


def install(host: Host, version: str) -> None:
    """What the role leaves."""
    for name in NAMES:
        host.write(FILES[name], ELF)
        host.package(name, f"{version}-1", [FILES[name]])
    for path, text in toolkit.files(row(version), {}).items():
        host.write(path, text)
