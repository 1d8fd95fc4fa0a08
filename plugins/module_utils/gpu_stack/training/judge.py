"""What the hosts of a job say, judged together on the controller. Pure."""

from __future__ import annotations

import ipaddress
import json

from ..type_checking import TYPE_CHECKING
from .ports import FIREWALL, OPEN

if TYPE_CHECKING:
    from typing import Any

# TensorFlow's kinds of all-reduce: tf.distribute.experimental.CommunicationImplementation
COMMUNICATION = ("AUTO", "NCCL", "RING")
# Kubeflow's, and what TensorFlow's tutorials show.
PORT = 2222


def place(address: str, port: int) -> str:
    """ "192.0.2.7:2222", and "[2001:db8::7]:2222"."""
    return "{0}:{1}".format("[" + address + "]" if ":" in address else address, port)


def tf_config(addresses: list[str], port: int, worker: int) -> str:
    """TF_CONFIG of a worker; worker 0 is the chief, as TensorFlow takes it where none is named."""
    workers = [place(address, port) for address in addresses]
    return json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": worker}},
        sort_keys=True,
    )


def addresses(hosts: dict[str, str]) -> list[str]:
    """What is wrong with the addresses by which peers reach each other."""
    if len(hosts) < 2:
        return []
    faults = []
    owners: dict[str, str] = {}
    for host, address in hosts.items():
        if _is_loopback(address):
            faults.append(
                "{0}: its peers can't reach it at {1}: gpu_train_address names the address that "
                "they reach".format(host, address)
            )
        elif address in owners:
            faults.append(
                "{0} and {1} have one address, {2}".format(owners[address], host, address)
            )
        owners.setdefault(address, host)
    return faults


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def looks(
    facts: dict[str, dict[str, Any]], gpus: list[int] | None, in_use: str, resume: bool
) -> list[str]:
    """Why a job can't begin on these hosts, by what each said; a line each, which names the host.

    gpus: the numbers of those that the job gets; None: all. in_use: gpu_accept_in_use, by which
    somebody at work on a host keeps it all to himself, or the GPUs on which he works.
    """
    faults = []
    for host, told in facts.items():
        faults += ["{0}: {1}".format(host, text) for text in _of_host(told, gpus, in_use, resume)]
    versions: dict[str, list[str]] = {}
    for host, told in facts.items():
        if told["tensorflow"]:
            versions.setdefault(told["tensorflow"], []).append(host)
    if len(versions) > 1:
        each = "; ".join(
            "{0} on {1}".format(version, ", ".join(hosts)) for version, hosts in versions.items()
        )
        faults.append("the hosts differ in TensorFlow, and workers of a job must not: " + each)
    return faults


def _of_host(told: dict[str, Any], gpus: list[int] | None, in_use: str, resume: bool) -> list[str]:
    faults = [told["fault"]] if told["fault"] else []
    if not told["tensorflow"]:
        faults.append("it has no finished environment of TensorFlow: `provision apply` brings it")
    if told["taken"] and not resume:
        faults.append(
            "a job of this name has been here, in {0}: another name, or gpu_train_resume to go on "
            "with it".format(told["folder"])
        )
    for port, holder in sorted(told["ports"].items()):
        faults.append("port {0} is held by {1}: gpu_train_port chooses others".format(port, holder))
    return faults + _gpus(told["gpus"], gpus, in_use)


def _gpus(told: dict[str, Any], gpus: list[int] | None, in_use: str) -> list[str]:
    if told["error"]:
        return [told["error"]]
    uuids = told["uuids"]
    chosen = list(range(len(uuids))) if gpus is None else gpus
    faults = [
        "it has no GPU {0}, but {1}".format(number, len(uuids))
        for number in chosen
        if number >= len(uuids)
    ]
    for number, uuid in enumerate(uuids):
        who = told["in_use"].get(uuid)
        if who and (number in chosen or in_use == "nothing"):
            faults.append("GPU {0} {1}: {2}".format(number, uuid, who))
    return faults


def reached(answers: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A line for each way between two hosts that is closed: {host: what it was answered}."""
    faults = [
        "{0} cannot reach {1}:{2}: {3}".format(host, entry["host"], entry["port"], entry["answer"])
        for host, entries in answers.items()
        for entry in entries
        if entry["answer"] != OPEN
    ]
    return [*faults, "hint: " + FIREWALL] if faults else []
