"""docker on this host's own socket, and the network that all workspaces are on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from . import docker_words, files, places, programs

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Iterator

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
    with _turn(files.inside(places.STATE + "/.network.lock")):
        if not network():
            words = ("--driver", "bridge", "--label", places.LABEL, "--opt", APART, places.NETWORK)
            programs.must(answer("network", "create", *words), "docker network create")


@contextlib.contextmanager
def _turn(path: str) -> Iterator[None]:
    """Holds a lock. RefusedError where another start has it for too long.

    Root alone can open the file: who can read one can lock it, and no workspace would start.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + STARTS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise places.RefusedError(
                        f"another workspace's start has held {path} for {STARTS} s"
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
