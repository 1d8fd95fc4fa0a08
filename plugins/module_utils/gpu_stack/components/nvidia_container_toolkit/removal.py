"""Removal of the toolkit: what is left of it on the host and in its runtimes, what forbids it."""

from __future__ import annotations

from ...change import blocker
from ...host.owned_files import owned
from ...type_checking import TYPE_CHECKING
from .. import nvidia_container_toolkit
from . import cdi, containerd, crio, docker

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row

# The files that the role writes whole.
FILES = owned(
    nvidia_container_toolkit.KEY,
    nvidia_container_toolkit.SOURCES,
    nvidia_container_toolkit.PREFERENCES,
    nvidia_container_toolkit.APT,
    "/etc/apt/auth.conf.d/provision-nvidia-container-toolkit.conf",
)


def remains(context: Context, packages: Sequence[str]) -> list[list[str]]:
    """[[item, value]] of CDI's specifications, and of the runtimes' entries that are ours.

    packages: those to be removed.
    """
    entries = docker.remains(context) + containerd.remains(context) + crio.remains(context)
    return cdi.remains(context, packages) + entries


def survey(context: Context) -> dict[str, Any]:
    """What of docker, and of those that make pods, may forbid the removal."""
    pods = containerd.removal_blockers(context) + crio.removal_blockers(context)
    return {"docker": docker.removal_state(context), "pods": pods}


def blockers(
    facts: Facts, _changes: Changes, _options: Options, _row: Row | None
) -> list[dict[str, Any]]:
    """Reasons not to remove the toolkit now. Pure."""
    removal = facts["preflight"].get("removal") or {}
    pods = removal.get("pods") or []
    return reasons(removal.get("docker")) + [
        blocker(rule, nvidia_container_toolkit.NAME, message, hint) for rule, message, hint in pods
    ]


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
        message = "containers at work were given GPUs by the container toolkit, set to absent: "
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
