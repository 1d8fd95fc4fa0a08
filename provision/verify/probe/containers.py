"""Docker and podman, and what they know of GPUs."""

from __future__ import annotations

import os
import re
from typing import Any

from .system import read, run


def docker(socket: str = "/var/run/docker.sock") -> dict[str, Any]:
    """Is docker there, does it run, may this user ask it, and what does it say of its runtimes?"""
    places = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
    found: dict[str, Any] = {
        "installed": any(os.path.exists(path) for path in places),
        "running": os.path.exists(socket),
        "allowed": os.access(socket, os.R_OK | os.W_OK),
        "runtimes": None,
    }
    if found["allowed"]:
        # In pieces, for Ansible would read double brackets as its own.
        shape = "{" * 2 + "json .Runtimes" + "}" * 2
        found["runtimes"] = run(["docker", "--host", f"unix://{socket}", "info", "--format", shape])
    return found


SPECIFICATIONS = ("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")


def cdi(specifications: tuple[str, ...] = SPECIFICATIONS) -> dict[str, Any]:
    """What podman is there, what nvidia-ctk lists, and the specification that counts.

    Of two that name one device the later directory's is taken.
    """
    there = [path for path in specifications if os.path.exists(path)]
    found: dict[str, Any] = {
        "podman": run(["podman", "--version"]),
        "devices": run(["nvidia-ctk", "cdi", "list"]),
        "path": there[-1] if there else None,
        "version": None,
        "missing": [],
    }
    content = read(there[-1]) if there else None
    if content is not None:
        version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", content)
        found["version"] = version.group(1) if version else None
        paths = re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", content)
        found["missing"] = [path for path in paths if not os.path.exists(path)]
    return found
