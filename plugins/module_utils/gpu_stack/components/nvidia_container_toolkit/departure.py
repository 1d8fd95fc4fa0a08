"""Removal of the toolkit from a host's container runtimes: what forbids it, and what remains."""

from __future__ import annotations

from ...change import blocker
from .. import nvidia_container_toolkit
from . import containerd, crio, docker

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context


def remains(context: Context) -> list[list[str]]:
    """[[item, value]] of the runtime's entries, where the configuration is ours to write."""
    return docker.remains(context) + containerd.remains(context) + crio.remains(context)


def reasons(docker_state: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Blockers of a removal of the toolkit from docker.

    docker_state: of `docker.removal_state`; None where docker is not concerned.
    """
    reasons: list[dict[str, Any]] = []
    if docker_state is None:
        return reasons
    if docker_state["users"] is None:
        message = "docker runs and does not answer, so whether containers use it cannot be known"
        hint = "`systemctl status docker` and journalctl -u docker say why"
        reasons.append(blocker("docker-containers", nvidia_container_toolkit.NAME, message, hint))
    elif docker_state["users"]:
        message = "containers at work were given GPUs by the container toolkit, wished away: "
        message += ", ".join(docker_state["users"])
        hint = "stop them when their users agree, then run again; none is ever stopped for you"
        reasons.append(blocker("docker-containers", nvidia_container_toolkit.NAME, message, hint))
    if docker_state["fault"] is not None:
        message = "{0} can't be read: {1}".format(docker.CONFIG, docker_state["fault"])
        hint = "repair it, or set nvidia_container_toolkit_docker to none"
        reasons.append(blocker("docker-config", nvidia_container_toolkit.NAME, message, hint))
    if docker_state["default"]:
        message = f"{docker.CONFIG} names nvidia as its default-runtime, and docker would not start"
        hint = "take default-runtime out of it and `systemctl reload docker`"
        reasons.append(blocker("docker-config", nvidia_container_toolkit.NAME, message, hint))
    return reasons
