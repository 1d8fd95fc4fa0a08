"""Container runtimes that can't be configured, or whose restart would end containers."""

from __future__ import annotations

from ...rules import rules_of, some
from ...type_checking import TYPE_CHECKING
from .. import nvidia_container_toolkit
from . import cdi, containerd, crio, docker

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Facts, Options, Reasons, Row, State


def _docker(host: Facts, options: Options) -> dict[str, Any] | None:
    """What the look found of the docker that is to be configured; None where none is."""
    state = host["state"][nvidia_container_toolkit.NAME]["docker"]
    none = docker.wish(options) == "none"
    return None if none or not state["installed"] else state


def docker_silent(answers: bool | None, names: list[str], changes: Changes, why: str) -> Reasons:
    """docker does not answer, and `names` need it; unless the same run brings it, before them.

    answers: None where nobody asked it.
    """
    if answers is not False or not names:
        return []
    if any(row["item"] in docker.ENGINES.values() for row in changes):
        return []
    return [
        (
            f"docker does not answer, and {why} ({some(names)})",
            "install docker.io or docker-ce and start it; `systemctl status docker` says how it is",
        )
    ]


def docker_config(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = _docker(host, options)
    if state is None or state["fault"] is None:
        return []
    return [
        (
            "{0} is {1}; it is left as it is".format(docker.CONFIG, state["fault"]),
            f"repair it (python3 -m json.tool {docker.CONFIG} shows where), or set "
            "nvidia_container_toolkit_docker: none",
        )
    ]


def docker_missing(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["docker"]
    if not docker.missing(state, options):
        return []
    snap = " but from snap, whose configuration is another file" if state["snap"] else ""
    return [
        (
            "nvidia_container_toolkit_docker is required, and docker is not installed" + snap,
            "install docker.io or docker-ce, or set nvidia_container_toolkit_docker: auto",
        )
    ]


def docker_other(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]
    others = docker.in_place(state["engine"]["others"], options)
    if not others:
        return []
    return [
        (
            "nvidia_container_toolkit_docker_engine is docker-ce, and {0} is installed, which apt "
            "would remove for it".format(", ".join(others)),
            "remove it yourself when nobody needs it (images and volumes stay in /var/lib/docker), "
            "or set nvidia_container_toolkit_docker_engine: check, which uses what is there",
        )
    ]


def docker_snap(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["docker"]
    wish = docker.wish(options)
    # The rule above says it of one that is required.
    if not state["snap"] or wish == "none" or (wish == "required" and not state["installed"]):
        return []
    origin = "from snap and from a package" if state["installed"] else "from snap"
    return [
        (
            f"docker is here {origin}; the one of snap reads another file than {docker.CONFIG}, "
            "and its containers would get no GPU",
            "move its containers to docker.io or docker-ce and `snap remove docker`, or leave "
            "docker alone with nvidia_container_toolkit_docker: none",
        )
    ]


def docker_containers(host: Facts, changes: Changes, _options: Options, _row: Row) -> Reasons:
    if not any(change["item"] == docker.RESTART for change in changes):
        return []
    docker_state = host["preflight"].get("docker")
    if docker_state is None or not docker.loses(docker_state):
        return []
    lost = "docker does not answer, so whether containers run can't be known"
    if docker_state["count"]:
        lost = "running containers would be lost ({0})".format(docker_state["count"])
    return [
        (
            "docker would be restarted to find NVIDIA's runtime: " + lost,
            f'stop them when their users agree, or set "live-restore": true in {docker.CONFIG} and '
            "`systemctl reload docker`, which restarts nothing; or leave docker alone with "
            "nvidia_container_toolkit_docker: none",
        )
    ]


def _missing(name: str, option: str) -> Reasons:
    return [
        (f"{option} is required, and {name} is not installed", f"install it, or set {option}: auto")
    ]


def containerd_config(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    toolkit = host["state"][nvidia_container_toolkit.NAME]
    state = toolkit["containerd"]
    if containerd.wish(options) == "required" and not state["installed"]:
        if docker.installs(toolkit["docker"], options):
            return []  # the platform's docker brings it
        return _missing("containerd", "nvidia_container_toolkit_containerd")
    if not state["wanted"] or state["fault"] is None:
        return []
    return [
        (
            "{0} is left as it is: {1}".format(containerd.CONFIG, state["fault"]),
            "repair it (`containerd config dump` shows what containerd makes of it), or set "
            "nvidia_container_toolkit_containerd: none",
        )
    ]


def _lost(name: str, state: State, option: str) -> Reasons:
    """The refusal of a restart that would end containers of the daemon."""
    if not state["wanted"] or state["loses"] is None:
        return []
    return [
        (
            "{0} would be restarted to know NVIDIA's runtime, and containers would be lost: "
            "{1}".format(name, state["loses"]),
            f"stop them when their users agree, then run again, or set {option}: none",
        )
    ]


def containerd_containers(host: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["containerd"]
    return _lost("containerd", state, "nvidia_container_toolkit_containerd")


def crio_config(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["crio"]
    if crio.wish(options) == "required" and not state["installed"]:
        return _missing("CRI-O", "nvidia_container_toolkit_crio")
    if not state["wanted"] or state["fault"] is None:
        return []
    return [
        (
            "CRI-O's configuration is left as it is: {0}".format(state["fault"]),
            f"repair it (`crio config` shows what CRI-O makes of {crio.CONFIG} and {crio.PLACE}), "
            "or set nvidia_container_toolkit_crio: none",
        )
    ]


def crio_containers(host: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["crio"]
    return _lost("CRI-O", state, "nvidia_container_toolkit_crio")


def podman_too_old(host: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    state = host["state"][nvidia_container_toolkit.NAME]["cdi"]
    if cdi.wish(options) != "required" or cdi.reads(state["podman"]) != ():
        return []
    since = ".".join(map(str, cdi.PODMAN_SINCE))
    return [
        (
            "nvidia_container_toolkit_cdi is required, and podman {0} reads no CDI specification; "
            "{1} is the first that does".format(state["podman"], since),
            "install a newer podman, or set nvidia_container_toolkit_cdi: auto, which leaves this "
            "one alone",
        )
    ]


RULES = rules_of(
    nvidia_container_toolkit.NAME,
    stops={
        "docker-config": docker_config,
        "docker-missing": docker_missing,
        "docker-other": docker_other,
        "docker-snap": docker_snap,
        "docker-containers": docker_containers,
        "containerd-config": containerd_config,
        "containerd-containers": containerd_containers,
        "crio-config": crio_config,
        "crio-containers": crio_containers,
        "podman-too-old": podman_too_old,
    },
)
