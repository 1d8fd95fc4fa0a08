"""Locks of recorded data, with a container toolkit: made up, for its real part needs a server."""

from __future__ import annotations

import copy
from typing import Any

from provision import lock as locks
from provision.lock import Lock
from provision.lock.model import digest_of
from tests.unit.generator import recorded

TOOLKIT = {
    "version": "1.20.1",
    "packages": {"toolkit": {"nvidia-container-toolkit": "1.20.1-1"}},
    "repository": {"url": "https://repo.example.org", "suite": "/", "key": "K", "fingerprints": []},
}
STACK = "debian11-tensorflow2.9.3-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"


def lock(wish: Any = None, *, toolkit: bool = True) -> Lock:
    """The lock of one wish (default: TensorFlow 2.9 on Debian 11)."""
    return changed(recorded.lock(wish), toolkit=toolkit)


def changed(made: Lock, *, toolkit: bool) -> Lock:
    """A lock whose hosts have a toolkit, with the digest that belongs to it; read as a file's."""
    slim: Any = copy.deepcopy(dict(made.slim))
    if toolkit:
        for row in slim["rows"]:
            slim["stacks"][row["stack"]]["nvidia_container_toolkit"] = copy.deepcopy(TOOLKIT)
            hashes = made.details["packages"][row["stack"]]
            hashes["nvidia-container-toolkit"] = {
                "version": "1.20.1-1",
                "sha256": "4" * 64,
                "size": 1,
                "source": "/",
            }
    slim["digest"] = digest_of(slim["rows"], slim["stacks"], made.details)
    return locks.parse(locks.dump(Lock(slim, made.details)), where="lock.yml")
