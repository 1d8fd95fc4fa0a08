"""Docker's runtimes, and the CDI devices that podman reads."""

from __future__ import annotations

import os
import re
from typing import Any

from .parts import part
from .system import read, run


def docker(socket: str = "/var/run/docker.sock") -> dict[str, Any]:
    """{installed, running, allowed (may this user ask it), runtimes: `docker info`'s JSON}."""
    places = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
    answer: dict[str, Any] = {
        "installed": any(os.path.exists(path) for path in places),
        "running": os.path.exists(socket),
        "allowed": os.access(socket, os.R_OK | os.W_OK),
        "runtimes": None,
    }
    if answer["allowed"]:
        # In pieces: Ansible would read double braces as a template.
        shape = "{" * 2 + "json .Runtimes" + "}" * 2
        answer["runtimes"] = run(
            ["docker", "--host", f"unix://{socket}", "info", "--format", shape]
        )
    return answer


SPECIFICATIONS = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")


def cdi(specifications: tuple[str, ...] = SPECIFICATIONS) -> dict[str, Any]:
    """podman's version, nvidia-ctk's list of devices, and the CDI specification in force.

    {path, version, missing}: `missing` are files it names that don't exist. Where two
    specifications name one device, the later directory's is in force.
    """
    present = [path for path in specifications if os.path.exists(path)]
    answer: dict[str, Any] = {
        "podman": run(["podman", "--version"]),
        "devices": run(["nvidia-ctk", "cdi", "list"]),
        "path": present[-1] if present else None,
        "version": None,
        "missing": [],
    }
    content = read(present[-1]) if present else None
    if content is not None:
        version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", content)
        answer["version"] = version.group(1) if version else None
        paths = re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", content)
        answer["missing"] = [path for path in paths if not os.path.exists(path)]
    return answer


@part
def of_container_toolkit(row: dict[str, Any], _options: dict[str, Any]) -> dict[str, Any]:
    """What docker and podman are given GPUs by."""
    if not row.get("nvidia_container_toolkit"):
        return {}
    return {"docker": docker(), "cdi": cdi()}
