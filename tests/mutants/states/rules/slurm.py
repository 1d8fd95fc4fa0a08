"""A cluster that can't be, or that work is under way on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import PRE, State, machine


def bare(found: dict[str, Any]) -> None:
    found["state"]["slurm"] = {"version": None, "here": False}


@fresh
def clustered() -> dict[str, Any]:
    """The machine, which is to be a node of Slurm's; made up."""
    data = machine()
    data["options"] |= {"slurm_state": "present", "slurm_cluster": "gpu", "slurm_compute": True}
    data["options"] |= {"slurm_controller": "gpu01"}
    data["found"]["state"]["slurm"].update(noted={}, leaves=[])
    data["found"]["preflight"]["slurm"] = {
        "wished": True, "faults": [], "theirs": [], "release": [20, 11], "cgroup": 1, "bus": True,
        "controller": "", "removal": "", "steps": 0,
    }  # fmt: skip
    return data


@fresh
def leaving() -> dict[str, Any]:
    """A node of Slurm's that is to be none any more."""
    data = clustered()
    data["options"]["slurm_state"] = "absent"
    data["found"]["state"]["slurm"].update(version="gpu", here=True)
    data["found"]["preflight"]["slurm"]["wished"] = False
    return data


@fresh
def growing() -> dict[str, Any]:
    """A controller of Slurm's that is to keep accounts from now on, under jobs."""
    data = clustered()
    part = {"name": "gpu01", "hostname": "gpu01", "address": "10.0.0.1", "sockets": 1, "cores": 2,
            "threads": 1, "memory": 4096, "gpus": []}  # fmt: skip
    data["found"]["state"]["slurm"].update(
        here=True, noted={"part": part}, missing=["slurmdbd"], key=True, files={}, stopped=[],
        disabled=[], part=part, said=None,
    )  # fmt: skip
    data["found"]["preflight"]["slurm"]["steps"] = 2
    return data


def states() -> Iterator[State]:
    seen, here = PRE + "slurm/", {"base": clustered, "only": ("slurm",)}
    rule, faults = "slurm-options", seen + "faults"
    fault = "slurm_controller: gpu09 is not in the inventory"
    words = (fault, "correct it in the inventory")
    yield State(rule, "the controller is nobody", {faults: [fault]}, words, **here)
    yield State(rule, "all is well said", {}, **here)
    rule, theirs = "slurm-theirs", seen + "theirs"
    words = ("a Slurm that this program did not bring", "/etc/slurm/slurm.conf", "by hand first")
    yield State(rule, "there is another", {theirs: ["/etc/slurm/slurm.conf"]}, words, **here)
    two = {theirs: ["/etc/slurm/slurm.conf", "/etc/munge/munge.key"]}
    words = ("is configured here: /etc/slurm/slurm.conf, /etc/munge/munge.key",)
    yield State(rule, "two of its files", two, words, **here)
    yield State(rule, "there is none", {}, **here)
    rule, former = "slurm-controller", seen + "controller"
    words = ("of the controller head, and slurm_controller is gpu01", "take Slurm off first")
    yield State(rule, "it is another's node", {former: "head"}, words, **here)
    yield State(rule, "it is nobody's, or this one's", {}, **here)
    rule, release, cgroup = "slurm-release", seen + "release", seen + "cgroup"
    words = ("which Slurm this platform has is not known", "Debian 11, 12 and 13")
    yield State(rule, "nobody knows it", {release: []}, words, **here)
    words = ("Slurm 19.05 of this platform gets no configuration",)
    yield State(rule, "it is too old", {release: [19, 5]}, words, **here)
    yield State(rule, "the first that does", {release: [20, 2]}, **here)
    words = ("Slurm 21.08 of this platform knows cgroup v1 alone", "unified_cgroup_hierarchy=0")
    yield State(rule, "cgroup v2", {release: [21, 8], cgroup: 2}, words, **here)
    yield State(rule, "it knows v2", {release: [22, 5], cgroup: 2}, **here)
    yield State(rule, "cgroup v1", {release: [21, 8], cgroup: 1}, **here)
    words = ("cgroup v2 and no system bus", "apt-get install dbus")
    alone = {release: [22, 5], cgroup: 2, seen + "bus": False}
    yield State(rule, "cgroup v2 without a bus", alone, words, **here)
    yield State(rule, "v1 needs no bus", {seen + "bus": False}, **here)
    words = ("no device cgroup", "CONFIG_CGROUP_DEVICE")
    yield State(rule, "no cgroup at all", {cgroup: 0}, words, **here)
    rule, away = "slurm-jobs", {"base": leaving, "only": ("slurm",)}
    removal = seen + "removal"
    told = "job 7 of ada on gpu01: run again when they have ended"
    yield State(rule, "ada has a job", {removal: told}, ("Slurm can't go", told), **away)
    yield State(rule, "nobody has one", {}, **away)
    words = ("this host can't stop being a node: job 7 of ada",)
    idle = {"options/slurm_compute": False}
    yield State(rule, "a node goes under a job", {**idle, removal: told}, words, **here)
    yield State(rule, "a node goes", idle, **here)
    gone = {seen + "release": [], cgroup: 0}
    yield State("slurm-release", "it goes, whatever it is", gone, **away)
    grows = {"base": growing, "only": ("slurm",)}
    words = ("slurmdbd must be installed", "under 2 running job steps", "state=drain")
    yield State(rule, "packages under jobs", {}, words, **grows)
    yield State(rule, "packages without jobs", {seen + "steps": 0}, **grows)
    missing = "found/state/slurm/missing"
    two = {missing: ["slurmdbd", "slurmctld"]}
    yield State(rule, "two packages under jobs", two, ("slurmdbd, slurmctld must be",), **grows)
    yield State(rule, "no package is missing", {missing: []}, **grows)
    stopped = {missing: [], "found/state/slurm/stopped": ["slurmctld"]}
    yield State(rule, "a service alone", stopped, **grows)
    dkms = {"base": growing, "only": ("slurm", "dkms")}
    yield State(rule, "a package of the driver's", stopped, **dkms)
