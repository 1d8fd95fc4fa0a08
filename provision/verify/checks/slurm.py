"""Slurm: it answers, the node is ready for jobs, and it gives out all GPUs of the host."""

from __future__ import annotations

import re

from ..cures import CURES, Cure
from .check import AGAIN, Seen, Verdict, check, cluster, failed, not_applicable, passed

LOGS = "`systemctl status slurmctld slurmd munge` and /var/log/slurm say why"
RESUME = "fix its reason, then run `scontrol update nodename=NAME state=resume`"
READY = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING")
# Marks behind a + with which a node gets no job; others are a part of its day, as PLANNED is.
AWAY = ("DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "MAINT", "POWER", "UNKNOWN")

CURES.update(
    {
        "slurm.answers": Cure(("slurm",), LOGS),
        "slurm.ready": Cure(("slurm",), RESUME),
        "slurm.gpus": Cure(("slurm",), "`nvidia-smi -L` and gres.conf on the controller differ"),
    }
)


def _node(seen: Seen) -> dict[str, str] | None:
    """What slurmctld says of this host, by word; None where it is no node."""
    slurm = seen.probe["slurm"]
    for line in slurm["nodes"]["stdout"].splitlines():
        # A reason may quote a user's command: nothing of it is a word of Slurm's.
        words = dict(re.findall(r"(\w+)=(\S*)", line.partition(" Reason=")[0]))
        if words.get("NodeHostName") == slurm["hostname"]:
            reason = re.search(r"\bReason=(.*?)(?: \[[^\]]*\])?\s*$", line)
            return {**words, "Reason": reason.group(1) if reason else ""}
    return None


@check("slurm.answers", "slurmctld answers this host", cluster)
def slurm_answers(seen: Seen) -> Verdict:
    ping = seen.probe["slurm"]["ping"]
    if ping["rc"] == 0 and "UP" in ping["stdout"]:
        return passed(ping["stdout"].strip())
    lines = (ping["stderr"] or ping["stdout"]).strip().splitlines()
    return failed(f"slurmctld does not answer: {lines[-1] if lines else 'no words'}", LOGS)


@check("slurm.ready", "The node accepts jobs", cluster)
def slurm_ready(seen: Seen) -> Verdict:
    node = _node(seen)
    if node is None and not seen.options["slurm_compute"]:
        return not_applicable("no jobs run on this host")
    if node is None:
        return failed("slurmctld does not know this host", AGAIN)
    state, *marks = node["State"].split("+")
    # With a * slurmctld says that the node does not answer.
    away = "*" in node["State"] or any(mark.startswith(AWAY) for mark in marks)
    if state in READY and not away:
        return passed(node["State"].lower())
    reason = node["Reason"] or "nobody said why"
    return failed(f"the node is {node['State'].lower()}: {reason}", RESUME)


@check("slurm.gpus", "Slurm offers the GPUs that this host has", cluster)
def slurm_gpus(seen: Seen) -> Verdict:
    node = _node(seen)
    if node is None:
        return not_applicable("this host is no node")
    given = sum(int(count) for count in re.findall(r"gpu:\w+:(\d+)", str(node.get("Gres"))))
    devices = seen.probe["slurm"]["devices"]
    wished = _wished(seen.options.get("slurm_gpus", "all"), devices)
    if given == wished:
        return passed(f"{given} of {devices}")
    share = "" if wished == devices else f", {wished} of them for Slurm (slurm_gpus)"
    return failed(f"Slurm gives out {given} GPUs of this host, which has {devices}{share}", AGAIN)


def _wished(value: int | str | list[int], devices: int) -> int:
    """How many GPUs of a host are Slurm's; the others are left to workspaces."""
    if value == "all":
        return devices
    return len(value) if isinstance(value, list) else int(value)
