"""docker, containerd, CRI-O and podman, as they may be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import PRE, State, machine


@fresh
def docked() -> dict[str, Any]:
    """The machine, whose stack has the container toolkit, with a docker that runs; made up."""
    data = machine()
    data["row"]["nvidia_container_toolkit"] = {
        "version": "1.20.1",
        "packages": {"toolkit": {"nvidia-container-toolkit": "1.20.1-1"}},
        "repository": {"url": "https://nvidia.example/deb", "suite": "/", "key": "KEY"},
    }
    data["found"]["state"]["nvidia_container_toolkit"] = {
        "version": None, "packages": {}, "files": {}, "written": {}, "stale": [], "flaws": [],
        "docker": {
            "installed": True, "snap": False, "running": True, "owed": False, "runtime": None,
            "fault": None,
        },
        "engine": {"others": [], "stale": []},
        "containerd": {
            "installed": True, "wanted": True, "fault": None, "other": False, "running": True,
            "runtime": "/usr/bin/nvidia-container-runtime", "owed": False, "loses": None,
        },
        "crio": {
            "installed": True, "wanted": True, "fault": None, "other": False, "running": True,
            "runtime": "/usr/bin/nvidia-container-runtime", "owed": False, "loses": None,
        },
        "cdi": {
            "podman": "4.3.1", "driver": True, "fault": None, "coming": None, "left": None,
            "disabled": [], "dropin": None,
        },
    }  # fmt: skip
    data["found"]["preflight"]["docker"] = {"count": 0, "live_restore": False}
    return data


def states() -> Iterator[State]:
    yield from docker_states()
    yield from containerd_states()
    yield from crio_states()
    yield from podman_states()


def docker_states() -> Iterator[State]:
    seen, here = "found/state/nvidia_container_toolkit/docker/", {"base": docked}
    none = {"options": {"nvidia_container_toolkit_docker": "none"}}
    required = {"options": {"nvidia_container_toolkit_docker": "required"}}
    rule, broken = "docker-config", {seen + "fault": "not JSON: line 3"}
    words = ("daemon.json is not JSON: line 3; it is left", "python3 -m json.tool")
    yield State(rule, "daemon.json is not JSON", broken, words, **here)
    yield State(rule, "it is, and docker is left alone", {**broken, **none}, **here)
    yield State(rule, "docker is not there", {**broken, seen + "installed": False}, **here)
    yield State(rule, "daemon.json can be read", {}, **here)
    yield State(rule, "the toolkit is not changed", broken, only=("cuda",), **here)
    rule, gone = "docker-missing", {seen + "installed": False}
    words = ("docker is required, and docker is not installed", "install docker.io or docker-ce")
    yield State(rule, "docker is required and not there", {**gone, **required}, words, **here)
    snap = {**gone, seen + "snap": True}
    words = ("not installed but from snap",)
    yield State(rule, "there is one of snap", {**snap, **required}, words, **here)
    yield State(rule, "it is not required", gone, **here)
    engine = {"nvidia_container_toolkit_docker_engine": "distribution"}
    coming = {"options": {**required["options"], **engine}}
    yield State(rule, "the run installs it", {**gone, **coming}, **here)
    words = ("not installed but from snap",)
    yield State(rule, "beside one of snap none is installed", {**snap, **coming}, words, **here)
    yield State(rule, "it is there", required, **here)
    rule, other = (
        "docker-other",
        {"found/state/nvidia_container_toolkit/engine/others": ["containerd", "docker.io"]},
    )
    engine = {"nvidia_container_toolkit_docker_engine": "docker-ce"}
    words = ("containerd, docker.io is installed, which apt would remove", "remove it yourself")
    yield State(rule, "Docker's is wished for", {**other, "options": engine}, words, **here)
    left = {**other, "options": {**engine, **none["options"]}}
    yield State(rule, "it is, and docker is left alone", left, **here)
    yield State(rule, "what is there is used", other, **here)
    yield State(rule, "none of them is there", {"options": engine}, **here)
    rule, twice = "docker-snap", {seen + "snap": True}
    words = ("docker is here from snap; the one of snap reads another file", "snap remove docker")
    yield State(rule, "docker is from snap", snap, words, **here)
    words = ("docker is here from snap and from a package",)
    yield State(rule, "docker is here twice", twice, words, **here)
    yield State(rule, "twice, and required", {**twice, **required}, words, **here)
    yield State(rule, "docker is left alone", {**snap, **none}, **here)
    yield State(rule, "twice, and left alone", {**twice, **none}, **here)
    yield State(rule, "it is of a package", {}, **here)
    ours = {PRE + "unfinished": [["nvidia-container-toolkit", "half-installed"]]}
    also = ("dpkg-interrupted",)
    yield State("dpkg-broken", "one of the toolkit's is half installed", ours, also=also, **here)
    words = ("interrupted (nvidia-container-toolkit)",)
    only = ("nvidia_container_toolkit",)
    yield State("dpkg-interrupted", "the toolkit finishes it", ours, words, only=only, **here)
    rule, count = "docker-containers", PRE + "docker/count"
    lost = "to find NVIDIA's runtime: running containers would be lost (1)"
    yield State(rule, "a container runs", {count: 1}, (lost, "systemctl reload docker"), **here)
    unknown = ("docker does not answer, so whether containers run can't be known",)
    yield State(rule, "docker does not answer", {count: None}, unknown, **here)
    yield State(rule, "none runs", {count: 0}, **here)
    yield State(rule, "they live on", {count: 9, PRE + "docker/live_restore": True}, **here)
    yield State(rule, "docker does not run", {count: 1, seen + "running": False}, **here)
    yield State(rule, "docker is left alone", {count: 1, **none}, **here)


def runtime_states(
    name: str, title: str, *, gone: Any, alone: str, unread: tuple[str, str], loses: str
) -> Iterator[State]:
    """The states of containerd and of CRI-O.

    `gone`: what it is where it is not installed. `alone`: why it is not wanted. `unread`: (which
    file can't be read, what is said of it).
    """
    rule, seen = f"{name}-config", f"found/state/nvidia_container_toolkit/{name}/"
    required = {"options": {f"nvidia_container_toolkit_{name}": "required"}}
    here, broken = {"base": docked}, {seen + "fault": "broken"}
    not_there = {seen + key: value for key, value in gone.items()}
    words = (f"{name} is required, and {title} is not installed", "install it, or set")
    yield State(rule, "it is required and not there", {**not_there, **required}, words, **here)
    yield State(rule, "it is not required", {**not_there, seen + "wanted": False}, **here)
    file, said = unread
    words = (f"{said} is left as it is: broken", "repair it")
    yield State(rule, f"{file} can't be read", broken, words, **here)
    yield State(rule, "it is required and can't be read", {**broken, **required}, words, **here)
    yield State(rule, alone, {**broken, seen + "wanted": False}, **here)
    yield State(rule, "it is required and whole", required, **here)
    rule, lost = f"{name}-containers", {seen + "loses": loses}
    words = (f"containers would be lost: {loses}", "stop them when")
    yield State(rule, "its restart would lose containers", lost, words, **here)
    yield State(rule, "none would be lost", {}, **here)
    yield State(rule, f"{alone}, and loses", {**lost, seen + "wanted": False}, **here)


def containerd_states() -> Iterator[State]:
    yield from runtime_states(
        "containerd",
        "containerd",
        gone={"installed": False},
        alone="it is nobody's who wants GPUs",
        unread=("config.toml", "config.toml"),
        loses="KillMode of containerd.service",
    )
    toolkit = "found/state/nvidia_container_toolkit/"
    bare = {
        toolkit + "containerd/installed": False,
        toolkit + "docker/installed": False,
        "options": {
            "nvidia_container_toolkit_containerd": "required",
            "nvidia_container_toolkit_docker_engine": "distribution",
        },
    }
    fact = "docker is installed by this run and brings it"
    yield State("containerd-config", fact, bare, base=docked)


def crio_states() -> Iterator[State]:
    yield from runtime_states(
        "crio",
        "CRI-O",
        gone={"installed": False, "wanted": False},
        alone="it is left alone",
        unread=("its files", "CRI-O's configuration"),
        loses="conmon runs in its own cgroup (2)",
    )


def podman_states() -> Iterator[State]:
    rule, podman = "podman-too-old", "found/state/nvidia_container_toolkit/cdi/podman"
    required = {"options": {"nvidia_container_toolkit_cdi": "required"}}
    words = ("podman 3.0.1 reads no CDI specification; 4.1 is the first", "install a newer podman")
    yield State(rule, "CDI is required", {podman: "3.0.1", **required}, words, base=docked)
    yield State(rule, "it is not required", {podman: "3.0.1"}, base=docked)
    for version in ("4.1.0", "", None):
        yield State(rule, f"podman is {version!r}", {podman: version, **required}, base=docked)
