"""States of the rules by which a run waits for Slurm's jobs, and no GPU is promised twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rule_states as made
from check_states import fresh

from . import gpu_workspace, slurm


@fresh
def node() -> dict[str, Any]:
    """The machine as a node of Slurm's; made up."""
    data = made.machine()
    data["options"]["slurm_drain_patience"] = 3600
    data["found"]["preflight"] |= {"slurm_drain": {}, "processes": []}
    return data


@fresh
def beside() -> dict[str, Any]:
    """The machine that is to be a node of Slurm's beside workspaces and models; made up."""
    data = clustered()
    data["options"]["gpu_servings"] = []
    data["found"]["preflight"]["gpus_of_people"] = {}
    return data


@fresh
def shared() -> dict[str, Any]:
    """The machine on which ada and bob are to have workspaces, and Slurm a share; made up."""
    data = gpu_workspace.shared()
    data["options"] |= {"slurm_state": "present", "slurm_compute": True, "slurm_gpus": 0}
    data["options"]["slurm_cluster"] = "gpu"
    data["found"]["state"]["slurm"].update(noted={}, leaves=[])
    return data


@fresh
def clustered() -> dict[str, Any]:
    """A node of Slurm's with two GPUs; made up."""
    data = slurm.clustered()
    data["options"] |= {"slurm_gpus": "all", "gpu_workspaces": []}
    of_both = gpu_workspace.shared()["found"]
    data["found"]["gpus"] = of_both["gpus"]
    data["found"]["state"]["gpu_workspace"] = of_both["state"]["gpu_workspace"]
    return data


def drained(*jobs: str, silent: str | None = None, needed: bool = True) -> dict[str, Any]:
    """What the survey found on a node, of which the driver is to change."""
    reason = "the NVIDIA driver is changed" if needed else ""
    return {
        made.PRE + "slurm_drain": {
            "node": "gpu01",
            "drain": {"needed": needed, "resume": needed, "reason": reason},
            "jobs": list(jobs),
            "silent": silent,
            "pids": {},
        }
    }


def states() -> Iterator[made.State]:
    yield from _of_the_driver()
    yield from _of_gpus()


def _of_the_driver() -> Iterator[made.State]:
    here: dict[str, Any] = {"base": node, "only": ("nvidia_driver",)}
    rule, job = "slurm-drain", "job 12 of ada (train) until 2026-11-26 20:53 at most"
    words = ("node gpu01 is drained first, and these jobs end: " + job, "at most 60 s")
    patient = {"options/slurm_drain_patience": 60}
    yield made.State(rule, "a job is there", {**drained(job), **patient}, words, **here)
    yield made.State(rule, "nobody is", drained(), ("drained first; no job runs there",), **here)
    yield made.State(rule, "no job would notice", drained(needed=False), **here)
    yield made.State(rule, "it is no node", {}, **here)
    rule, why = "slurm-silent", "Unable to contact slurm controller (connect failure)"
    words = ("Slurm does not say whose jobs run on this node: " + why, "slurmctld` on the")
    yield made.State(rule, "slurmctld does not answer", drained(silent=why), words, **here)
    yield made.State(rule, "it is no node", {}, **here)
    rule, process = "gpu-processes", {"pid": 714, "user": "ada", "command": "python train.py"}
    of_job = {**drained(job), made.PRE + "processes": [process]}
    words, also = ("pid 714 of ada: python train.py",), ("slurm-drain",)
    yield made.State(rule, "of no job of Slurm's", of_job, words, also=also, **here)
    path = made.PRE + "slurm_drain"
    known = {**of_job, path: {**of_job[path], "pids": {714: "12"}}}
    yield made.State(rule, "of a job, which ends first", known, also=also, **here)


def _of_gpus() -> Iterator[made.State]:
    share, people = "options/slurm_gpus", "options/gpu_workspaces"
    rule, here = "workspace-slurm", {"base": shared, "only": ("gpu_workspace",)}
    words = ("Slurm gives out all GPUs of the host, and ada, bob would", "give Slurm a number")
    yield made.State(rule, "Slurm gives out all", {share: "all"}, words, **here)
    words = ("GPU 1 is promised twice, to Slurm and to ada",)
    yield made.State(rule, "one is named twice", {share: [1]}, words, **here)
    words = ("slurm_gpus is 3, and this host has 2 GPUs",)
    yield made.State(rule, "more than there are", {share: 3}, words, **here)
    yield made.State(rule, "Slurm gives out none", {share: 0}, **here)
    idle = {share: "all", "options/slurm_compute": False}
    yield made.State(rule, "no job runs there", idle, **here)
    words, leaves = ("Slurm gives out all GPUs", "the tag slurm"), "found/state/slurm/leaves"
    yield made.State(rule, "this run leaves it a node", {**idle, leaves: ["gpu01"]}, words, **here)
    absent = {share: "all", "options/slurm_state": "absent"}
    yield made.State(rule, "it is no node", absent, **here)
    rule, here = "slurm-gpus", {"base": clustered, "only": ("slurm",)}
    ada = {people: [{"name": "ada", "gpus": 1, "port": 8801}]}
    words = ("Slurm gives out all GPUs of the host, and ada would",)
    yield made.State(rule, "a workspace wants one", {**ada, share: "all"}, words, **here)
    yield made.State(rule, "each has its own", {**ada, share: 1}, **here)
    words = ("slurm_gpus names GPU 2, and this host has 2",)
    yield made.State(rule, "one that is not there", {share: [2]}, words, **here)
    yield made.State(rule, "nobody else wants any", {share: "all"}, **here)
    model = {"name": "mnist", "models": "/srv/models/mnist", "gpus": [1], "port": 8501}
    words = ("GPU 1 is promised twice, to Slurm and to model mnist", "and models the others")
    here = {"base": beside, "only": ("slurm",)}
    wished = {"options/gpu_servings": [model]}
    yield made.State(rule, "a model wants it", {**wished, share: 1}, words, **here)
    yield made.State(rule, "a model wants the other", {**wished, share: [0]}, **here)
    yield from _of_held_gpus(rule, {**ada, share: 1}, here)


def _of_held_gpus(rule: str, counted: dict[str, Any], here: Any) -> Iterator[made.State]:
    """What others have been given already; Slurm is to get GPU 1 of two."""
    people, models = made.PRE + "gpus_of_people", "found/state/gpu_serving/models"
    words = ("GPU 1 would be Slurm's, and ada has it now", "as a list of indices")
    has = {**counted, people: {"ada": [1]}}
    yield made.State(rule, "somebody has been given it", has, words, **here)
    yield made.State(rule, "somebody has the other", {**counted, people: {"ada": [0]}}, **here)
    moves = {**here, "only": ("slurm", "gpu_workspace")}
    yield made.State(rule, "the workspaces change as well", has, **moves)
    absent = {**has, "options/slurm_state": "absent"}
    yield made.State(rule, "Slurm is to go", absent, **here)
    for fact, gpus in (("a model has it, by its UUID", [1]), ("a model has them all", "all")):
        words = ("GPU 1 would be Slurm's, and model mnist has it now",)
        held = {models: {"mnist": {"record": {"gpus": gpus}}}}
        yield made.State(rule, fact, {**counted, **held}, words, **here)
    for fact, record in (("a model has the other", {"gpus": [0]}), ("a model has none", None)):
        held = {models: {"mnist": {"record": record}}}
        yield made.State(rule, fact, {**counted, **held}, **here)
