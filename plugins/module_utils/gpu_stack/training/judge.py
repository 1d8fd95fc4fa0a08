"""What the hosts of a job say, judged together on the controller. Pure."""

from __future__ import annotations

import ipaddress
import json

from ..type_checking import TYPE_CHECKING
from .ports import FIREWALL, OPEN, SILENT

if TYPE_CHECKING:
    from typing import Any

# TensorFlow's kinds of all-reduce: tf.distribute.experimental.CommunicationImplementation
COMMUNICATION = ("AUTO", "NCCL", "RING")
# Kubeflow's, and what TensorFlow's tutorials show.
PORT = 2222
# Bytes on the disk of a job's folder below which nothing is started: backups and the final model
# go there.
ROOM = 512 << 20
# Seconds by which the clocks of two hosts may differ: any that are set by the network agree better.
APART = 30.0


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
    for host, look in facts.items():
        faults += ["{0}: {1}".format(host, text) for text in _of_host(look, gpus, in_use, resume)]
    versions: dict[str, list[str]] = {}
    for host, look in facts.items():
        if look["tensorflow"]:
            versions.setdefault(look["tensorflow"], []).append(host)
    if len(versions) > 1:
        by_version = "; ".join(
            "{0} on {1}".format(version, ", ".join(hosts)) for version, hosts in versions.items()
        )
        faults.append(
            "the hosts differ in TensorFlow, and workers of a job must not: " + by_version
        )
    return faults


def _of_host(look: dict[str, Any], gpus: list[int] | None, in_use: str, resume: bool) -> list[str]:
    faults = [look["fault"]] if look["fault"] else []
    if not look["tensorflow"]:
        faults.append("it has no finished environment of TensorFlow: `provision apply` brings it")
    if look["running"]:
        faults.append(
            "a job of this name is at work here, of {0}: another name, or --stop first".format(
                look["running"]
            )
        )
    elif look["taken"] and not resume:
        faults.append(
            "a job of this name has been here, in {0}: another name, or gpu_train_resume to go on "
            "with it".format(look["folder"])
        )
    if look["free"] is not None and look["free"] < ROOM:
        faults.append(
            "{0} MiB are free for {1}, of {2} that backups and the final model need at least: "
            "gpu_train_folder names another disk".format(
                look["free"] >> 20, look["folder"], ROOM >> 20
            )
        )
    for port, holder in sorted(look["ports"].items()):
        faults.append("port {0} is held by {1}: gpu_train_port chooses others".format(port, holder))
    return faults + _gpus(look["gpus"], gpus, in_use)


def _gpus(look: dict[str, Any], gpus: list[int] | None, in_use: str) -> list[str]:
    if look["error"]:
        return [look["error"]]
    uuids = look["uuids"]
    chosen = list(range(len(uuids))) if gpus is None else gpus
    faults = [
        "it has no GPU {0}, but {1}".format(number, len(uuids))
        for number in chosen
        if number >= len(uuids)
    ]
    for number, uuid in enumerate(uuids):
        who = look["in_use"].get(uuid)
        if who and (number in chosen or in_use == "nothing"):
            faults.append("GPU {0} {1}: {2}".format(number, uuid, who))
    return faults


def clocks(facts: dict[str, dict[str, Any]]) -> str:
    """Which two hosts' clocks are apart, in words; "" where none are.

    TensorFlow trains all the same, but nobody can lay its workers' logs side by side. A host has
    read its clock somewhere `between` two moments of the controller.
    """
    timed = {host: look for host, look in facts.items() if look.get("between")}
    if not timed:
        return ""
    least = {host: look["clock"] - look["between"][1] for host, look in timed.items()}
    most = {host: look["clock"] - look["between"][0] for host, look in timed.items()}
    ahead, behind = max(least, key=lambda host: least[host]), min(most, key=lambda host: most[host])
    apart = least[ahead] - most[behind]
    if apart <= APART:
        return ""
    return (
        "the clock of {0} is {1:.0f} s ahead of that of {2}: the times in the workers' logs and in "
        "TensorBoard do not agree; see `timedatectl` there".format(ahead, apart, behind)
    )


def needs_any_port(facts: dict[str, dict[str, Any]], communication: str) -> list[str]:
    """The hosts between which NCCL may connect: at ports that the kernel chooses.

    A firewall that lets TensorFlow's own port alone through is why a training hangs in its first
    step (tensorflow#37693). AUTO takes NCCL between GPUs.
    """
    if communication == "RING":
        return []
    return [host for host, look in facts.items() if look["gpus"]["uuids"] and look["any_port"]]


def reached(answers: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A line for each way between two hosts that is closed: {host: what it was answered}."""
    faults = []
    is_nccl = False
    for host, entries in answers.items():
        for entry in entries:
            if entry["answer"] == OPEN:
                continue
            words = "{0} cannot reach {1}:{2}: {3}, at {4}".format(
                host, entry["host"], entry["port"], entry["answer"], entry["address"]
            )
            if entry["answer"].startswith(SILENT):
                words += ": a firewall that drops it?"
            if entry.get("any"):
                is_nccl, words = True, words + " (any port, as NCCL takes them)"
            faults.append(words)
    if is_nccl:
        faults.append(
            "hint: NCCL connects at any port, and a training hangs in its first step where it "
            "can't (tensorflow#37693): let these hosts reach each other at all ports, or take "
            "--communication ring, for which the workers' ports are enough"
        )
    return [*faults, "hint: " + FIREWALL] if faults else []
