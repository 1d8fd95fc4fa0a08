"""A node that Slurm does not know, gives no work or fewer GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import State, fresh, machine, said


@fresh
def clustered() -> dict[str, Any]:
    """The machine as a node of a cluster of Slurm's; made up."""
    data = machine()
    data["options"] |= {"slurm_state": "present", "slurm_compute": True}
    node = "NodeName=gpu01 NodeHostName=gpu01 Gres=gpu:tesla_t4:2 State=IDLE Partitions=gpu"
    data["probe"]["slurm"] = {
        "ping": said("Slurmctld(primary) at gpu01 is UP\n"),
        "nodes": said(node + "\n"),
        "hostname": "gpu01",
        "devices": 2,
    }
    return data


def states() -> Iterator[State]:
    here: dict[str, Any] = {"base": clustered, "machine_only": True}
    seen, node = "probe/slurm", "NodeName=gpu01 NodeHostName=gpu01 Gres=gpu:tesla_t4:2 State="
    silent = said("", "slurm_load_node error: Unable to contact slurm controller", 1)
    for check, fact, changes, words in (
        ("answers", "nobody answers", {f"{seen}/ping": silent}, "Unable to contact slurm"),
        (
            "answers",
            "it is down",
            {f"{seen}/ping": said("Slurmctld(primary) at gpu01 is DOWN\n", "", 0)},
            "at gpu01 is DOWN",
        ),
        (
            "ready",
            "the node is drained",
            {f"{seen}/nodes": said(node + "IDLE+DRAIN Reason=Low RealMemory [root@2026]\n")},
            "is idle+drain: Low RealMemory",
        ),
        (
            "ready",
            "its reason quotes a user's command",
            {f"{seen}/nodes": said(node + "IDLE+DRAIN Reason=pid 5 of eve (x State=IDLE) [a@b]\n")},
            "is idle+drain: pid 5 of eve (x State=IDLE)",
        ),
        (
            "ready",
            "it does not answer",
            {f"{seen}/nodes": said(node + "IDLE* Partitions=gpu\n")},
            "is idle*: nobody said why",
        ),
        ("gpus", "a GPU is missing", {f"{seen}/devices": 1}, "gives out 2 GPUs of this host"),
    ):
        yield State(f"slurm.{check}", fact, changes, (words,), **here)
    yield State(
        "slurm.ready",
        "it is unknown",
        {f"{seen}/nodes": said("")},
        ("does not know this host",),
        silent=("slurm.gpus",),
        **here,
    )
