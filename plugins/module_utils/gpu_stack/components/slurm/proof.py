"""Proves a node: it is ready for jobs, and a job on it sees the GPU that it was given, alone."""

from __future__ import annotations

import json
import socket
import time

from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import hardware, nodes, paths, records, services, wishes

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options

# Runs in a job: which device files of GPUs it may open. Not permitted is the cgroup's answer, and
# no access that of slurmd's mounts.
OPENS = (
    "import errno, json, os, sys\n"
    "seen = []\n"
    "for path in sys.argv[1:]:\n"
    "    try:\n"
    "        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))\n"
    "    except OSError as error:\n"
    "        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOENT):\n"
    "            continue\n"
    "    seen.append(path)\n"
    "print(json.dumps(seen))\n"
)
BUSY = ("busy", "Requested nodes are busy", "Immediate execution", "resources")


def prove(options: Options, patience: float) -> dict[str, Any]:
    """{node, job}: what is said of this host and of the job; RefusalError with what is wrong."""
    host = wishes.host(options)
    noted = records.noted(Context())
    if not wishes.computes(options):
        if not services.answers(patience):
            raise RefusalError("slurmctld does not answer: " + services.complaint("slurmctld"))
        return {"node": "", "job": ""}
    _check_port(host["controller_address"], paths.CONTROLLER_PORT, "slurmctld's")
    node_record = _ready(host["name"], patience)
    difference = nodes.unlike(node_record, noted["part"])
    if difference:
        raise RefusalError(f"slurmctld has other words of this host: {difference}")
    words = "{0}, {1}".format(node_record["state"].lower(), node_record["gres"] or "no GPU")
    if nodes.is_drained(node_record):
        # By an administrator, a failed acceptance, or this run.
        return {"node": words, "job": "was not tried: drained, {0}".format(node_record["reason"])}
    return {"node": words, "job": _tried(node_record, noted["part"])}


def _check_port(address: str, port: int, whose: str) -> None:
    try:
        socket.create_connection((address, port), timeout=10).close()
    except OSError as error:
        raise RefusalError(
            f"{whose} port {port} of {address} can't be reached from here ({error}): a firewall "
            "between the hosts must let it through, or slurmctld does not run there"
        ) from error


def _ready(name: str, patience: float) -> dict[str, Any]:
    until = time.time() + patience
    while True:
        node_record = nodes.ask(run_program, name)
        if nodes.is_ready(node_record) or nodes.is_drained(node_record):
            return node_record
        if time.time() > until:
            break
        time.sleep(0.5)
    wrong, cure = nodes.why(node_record)
    if not services.is_active("slurmd"):
        wrong = "slurmd does not run: " + (services.complaint("slurmd") or wrong)
    raise RefusalError(f"{name} takes no jobs: {wrong}. To do: {cure}")


def _tried(node_record: dict[str, Any], part: dict[str, Any]) -> str:
    """Runs a short job on this node; returns which GPUs it could open, in words."""
    if not node_record["partitions"][0]:
        return "was not tried: no partition of slurm_partitions has this node"
    files = [gpu["file"] for gpu in part["gpus"]]
    command = ["timeout", "60", "srun", "-Q", "-w", part["name"], "-n", "1", "-t", "1"]
    command += ["-p", node_record["partitions"][0], "-J", "provision", "--immediate=20", "-D", "/"]
    command += ["--gres=gpu:1"] if files else []
    closed = hardware.closed(part)
    answer = run_program([*command, "/usr/bin/python3", "-I", "-c", OPENS, *files, *closed])
    if answer.rc:
        message = (answer.err or answer.out).strip()[-400:]
        if node_record["state"] != "IDLE" and any(word in message for word in BUSY):
            return "not tried: all that it has is at work"
        raise RefusalError("a job on {0} fails: {1}".format(part["name"], message))
    try:
        seen = json.loads(answer.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise RefusalError("a job on {0} says {1!r}".format(part["name"], answer.out)) from None
    if set(seen) & set(closed):
        raise RefusalError(
            "a job on {0} may open {1}, which is not Slurm's (slurm_gpus): restart slurmd".format(
                part["name"], ", ".join(sorted(set(seen) & set(closed)))
            )
        )
    if len(seen) != min(1, len(files)):
        raise RefusalError(
            "a job with one GPU of {0} may open {1}: the device cgroup does not keep it to its "
            "own".format(part["name"], ", ".join(seen) or "none of them")
        )
    return "could open only {0}, of {1} GPUs".format(seen[0], len(files)) if files else "ran"
