"""Starts one worker of an Indexed Job: makes TF_CONFIG of the pod's index and becomes the script.

The training operator writes TF_CONFIG into the pods of a TFJob; nobody writes it into those of a
Job. TensorFlow waits for a peer without a word and without an end, so the peers' names are looked
up first: a worker that has no pod, or no name, is said by its name. Python 3.7.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

# Seconds between two questions for a name that is not known yet.
PAUSE = 2.0


def number(environment: Mapping[str, str], name: str) -> int:
    """A count or port of the environment; SystemExit where it is none."""
    value = environment.get(name, "")
    if not value.isdigit():
        sys.exit(
            f"launch: {name} is {value!r}; expected a number. Kubernetes sets JOB_COMPLETION_INDEX "
            "where completionMode is Indexed; the manifest sets the others"
        )
    return int(value)


def workers(environment: Mapping[str, str]) -> list[str]:
    """host:port of every worker, in the order of their indices."""
    job, service = environment["PROVISION_JOB"], environment["PROVISION_SERVICE"]
    port = number(environment, "PROVISION_PORT")
    count = number(environment, "PROVISION_WORKERS")
    return [f"{job}-{index}.{service}:{port}" for index in range(count)]


def tf_config(environment: Mapping[str, str]) -> str:
    """TF_CONFIG of this worker; worker 0 is TensorFlow's chief where there is none of the name."""
    index, hosts = number(environment, "JOB_COMPLETION_INDEX"), workers(environment)
    if index >= len(hosts):
        sys.exit(f"launch: the index is {index}, of {len(hosts)} workers")
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": hosts}, "task": task}, sort_keys=True)


def unknown(hosts: Sequence[str]) -> list[str]:
    """Those whose names have no address yet."""
    missing = []
    for host in hosts:
        name, _colon, port = host.rpartition(":")
        try:
            socket.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)
        except OSError:
            missing.append(name)
    return missing


def wait(hosts: Sequence[str], patience: int) -> None:
    """Returns when every name has an address; SystemExit after `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        missing = unknown(hosts)
        if not missing:
            return
        if time.monotonic() >= end:
            sys.exit(
                f"launch: after {patience} s there is no address for {', '.join(missing)}: its pod "
                "was not started (no GPU free? `kubectl describe pod`), or the Service is missing"
            )
        time.sleep(PAUSE)


def main(script: str, arguments: Sequence[str]) -> NoReturn:
    """Becomes the script, with TF_CONFIG in its environment."""
    environment = dict(os.environ)
    environment["TF_CONFIG"] = tf_config(environment)
    hosts = workers(environment)
    if len(hosts) > 1:
        wait(hosts, number(environment, "PROVISION_PATIENCE"))
    words = [sys.executable, script, *arguments]
    os.execve(sys.executable, words, environment)  # noqa: S606 no shell is meant to


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
