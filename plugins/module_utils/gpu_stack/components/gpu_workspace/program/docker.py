"""docker on this host's own socket, and the network that all workspaces are on."""

from __future__ import annotations

import fcntl
import json
import os

from . import docker_words, files, places, programs

APART = "com.docker.network.bridge.enable_icc=false"
# docker answers nobody while it makes or removes a container; without an overlay it copies the
# whole image for each.
STARTS = 600


def answer(*arguments: str, **options: float | None) -> tuple[int, str, str]:
    """`call` of docker on this host's own socket. RefusedError where it does not answer."""
    result = programs.call(
        ["docker", "--host", docker_words.SOCKET, *arguments],
        **dict({"timeout": STARTS}, **options),
    )
    if result[0] == 124:
        raise places.RefusedError(result[2])
    return result


def running() -> dict[str, str]:
    """{name: revision} of the workspaces whose containers run."""
    return docker_words.revisions(
        programs.must(answer(*docker_words.LISTING), "docker does not answer")
    )


def network() -> bool:
    """Whether our network is there. RefusedError where another one has its name."""
    code, out, _error = answer(
        "network", "inspect", "--format", docker_words.shape("json ."), places.NETWORK
    )
    if code:
        return False
    inspected = json.loads(out)
    option, _mark, value = APART.partition("=")
    if (
        places.LABEL not in (inspected["Labels"] or {})
        or (inspected["Options"] or {}).get(option) != value
    ):
        raise places.RefusedError(
            f"docker has a network {places.NETWORK} that is not of gpu_workspaces; remove it, or "
            "what uses it, first"
        )
    return True


def connect() -> None:
    """Makes the network where it is missing.

    docker takes one name for two networks, and then starts nothing on either: units that begin at
    once take turns.
    """
    os.makedirs(files.inside(places.STATE), mode=0o755, exist_ok=True)
    with open(files.inside(places.STATE + "/.network"), "w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not network():
            words = ("--driver", "bridge", "--label", places.LABEL, "--opt", APART, places.NETWORK)
            programs.must(answer("network", "create", *words), "docker network create")
