"""A container toolkit of other packages, which docker or podman do not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from check_states import GONE, State, fresh, machine, said

TOOLKIT = dict.fromkeys(
    [
        *("libnvidia-container-tools", "libnvidia-container1"),
        *("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
    ],
    "1.20.1-1",
)


@fresh
def containers() -> dict[str, Any]:
    """The machine with the container toolkit and docker; made up, not recorded."""
    data = machine()
    row, probe = data["row"], data["probe"]
    row["nvidia_container_toolkit"] = {"version": "1.20.1", "packages": {"toolkit": dict(TOOLKIT)}}
    for name, version in TOOLKIT.items():
        probe["packages"][name] = {"version": version, "status": "hi"}
    known = {name: {"path": name} for name in ("nvidia", "runc")}
    probe["docker"] = {
        "installed": True,
        "running": True,
        "allowed": True,
        "runtimes": said(json.dumps(known) + "\n"),
    }
    devices = "nvidia.com/gpu=0\nnvidia.com/gpu=all\n"
    probe["cdi"] = {
        "podman": said("podman version 4.3.1\n"),
        "devices": said(devices, "INFO[0000] Found 2 CDI devices\n"),
        "path": "/var/run/cdi/nvidia.yaml",
        "version": "0.5.0",
        "missing": [],
    }
    data["options"] |= {
        "nvidia_container_toolkit_cdi": "required",
        "nvidia_container_toolkit_hold": True,
        "nvidia_container_toolkit_docker": "required",
    }
    return data


def states() -> Iterator[State]:
    yield from of_packages()
    yield from of_docker()
    yield from of_cdi()


def of_packages() -> Iterator[State]:
    check, name = "nvidia_container_toolkit.packages", "libnvidia-container1"
    package = f"probe/packages/{name}"
    for fact, changes, words in (
        ("one of the four was upgraded", {f"{package}/version": "1.21.0-1"}, "is 1.21.0-1"),
        ("one of them is gone", {package: GONE}, f"{name} is not installed"),
        ("it is half installed", {f"{package}/status": "hH"}, "is half installed (hH)"),
        ("it is not held", {f"{package}/status": "ii"}, f"not held: {name}"),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)


def of_docker() -> Iterator[State]:
    check, docker = "nvidia_container_toolkit.docker", "probe/docker"
    nothing = "Cannot connect to the Docker daemon. Is it running?"
    for fact, changes, words in (
        (
            "docker was not restarted",
            {f"{docker}/runtimes": said('{"runc": {}}')},
            "docker knows the runtimes runc alone",
        ),
        (
            "docker does not answer",
            {f"{docker}/runtimes": said(stderr=nothing, rc=1)},
            f"docker does not answer: {nothing}",
        ),
        (
            "docker answers with something else",
            {f"{docker}/runtimes": said("null\n")},
            "docker does not answer: null",
        ),
        ("docker is required and gone", {f"{docker}/installed": False}, "docker is not installed"),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)


def of_cdi() -> Iterator[State]:
    check, cdi = "nvidia_container_toolkit.cdi", "probe/cdi"
    gone = {f"{cdi}/devices": said("", "INFO[0000] Found 0 CDI devices\n")}
    library = "/usr/lib/x86_64-linux-gnu/libcuda.so.470.1"
    for fact, changes, words in (
        ("nothing is listed", gone, "no CDI specification names nvidia.com/gpu=all: INFO[0000]"),
        (
            "other devices are listed",
            {f"{cdi}/devices": said("nvidia.com/gpu=0\n")},
            "names nvidia.com/gpu=all: nvidia.com/gpu=0",
        ),
        (
            "podman reads no CDI as new as that",
            {f"{cdi}/version": "0.6.0"},
            "nvidia.yaml is of CDI 0.6.0, and podman version 4.3.1 reads 0.5.0 at most",
        ),
        (
            "podman is too old",
            {f"{cdi}/podman": said("podman version 3.0.1\n")},
            "3.0.1 reads no CDI",
        ),
        (
            "the driver's files are others now",
            {f"{cdi}/missing": [library, "/x"]},
            f"nvidia.yaml names 2 files that are not there, such as {library}",
        ),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)
