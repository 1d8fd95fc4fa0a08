"""Workspaces that a host has no room, GPUs or ports for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import GIB, PRE, State, machine


def bare(found: dict[str, Any]) -> None:
    found["state"]["gpu_workspace"] = {"version": None, "people": {}, "running": {}}


@fresh
def shared() -> dict[str, Any]:
    """The machine, on which ada and bob are to have workspaces; made up."""
    data = machine()
    data["found"]["gpus"] = [{"index": n, "device": "0x1eb8"} for n in range(2)]
    uids: dict[str, Any] = {"users": {}, "taken": {}, "homes": {}, "root": None}
    data["found"]["state"]["gpu_workspace"].update(files={}, uids=uids)
    data["found"]["preflight"]["workspaces"] = {
        "docker": True,
        "ports": [],
        "memory": 4 * GIB,
        "in_use": {},
        "users": {},
        "root": None,
        "volumes": {},
    }
    data["options"]["gpu_workspaces"] = [
        {
            "name": "ada",
            "kind": "both",
            "gpus": [1],
            "shared": True,
            "port": 8801,
            "ssh_port": 2200,
            "ssh_keys": ["ssh-ed25519 " + "A" * 68],
            "memory": "3g",
        },
        {
            "name": "bob",
            "gpus": 2,
            "port": 8802,
            "memory": "1024m",
            "shared": True,
            "user": "1000:1000",
        },
    ]
    return data


def states() -> Iterator[State]:
    seen, here = PRE + "workspaces/", {"base": shared, "only": ("gpu_workspace",)}
    nobody = {"options": {"gpu_workspaces": []}}
    rule, name = "workspace-list", "options/gpu_workspaces/1/"
    words = ('gpu_workspaces: entry 2: "Bob" is no user name', "provision explain gpu_workspaces")
    yield State(rule, "a name is none", {name + "name": "Bob"}, words, **here)
    words = ("port 8801 is said twice (ada and bob)",)
    yield State(rule, "two have one port", {name + "port": 8801}, words, **here)
    yield State(rule, "all are in it", {}, **here)
    rule, gone = "workspace-docker", {seen + "docker": False}
    words = ("workspaces are its containers (ada, bob)", "install docker.io")
    yield State(rule, "docker does not answer", gone, words, **here)
    yield State(rule, "nobody is wished for", {**gone, **nobody}, **here)
    yield State(rule, "docker answers", {}, **here)
    rule = "workspace-port"
    words = ("port 8802 of bob is in use by something else", "give bob another port")
    yield State(rule, "something listens at a port", {seen + "ports": [8802]}, words, **here)
    yield State(rule, "nothing does", {seen + "ports": []}, **here)
    sshd = {"options/gpu_workspaces/0/ssh_port": 2201, seen + "ports": [2201]}
    words = ("port 2201 of ada is in use by something else",)
    yield State(rule, "something listens at sshd's", sshd, words, **here)
    rule, why = "workspace-user", "is alice, an account of this host"
    words = (f"user 1000:1000 of bob {why}", "leave `user` of bob out")
    yield State(rule, "somebody's uid is an account", {seen + "users": {"bob": why}}, words, **here)
    yield State(rule, "nobody's is", {seen + "users": {}}, **here)
    rule, why = "workspace-root", "/srv holds more than homes, and nobody else could use it"
    words = (why, "name a directory in gpu_workspace_root")
    yield State(rule, "the homes' root is shared", {seen + "root": why}, words, **here)
    yield State(rule, "it is theirs alone", {seen + "root": None}, **here)
    rule, why = (
        "workspace-volume",
        {"ada": "/home/alice/data: /home/alice belongs to uid 1000", "eve": "x"},
    )
    words = ("a volume of ada can be swapped for a link", "/home/alice/data", "as /srv/data/ada")
    yield State(rule, "others can replace a volume", {seen + "volumes": why}, words, **here)
    yield State(rule, "root alone can", {seen + "volumes": {}}, **here)
    rule, people = "workspace-gpu", "options/gpu_workspaces/"
    words = ("ada is to get GPU 2, and this host has 2", "indices count from 0")
    yield State(rule, "an index that is not there", {people + "0/gpus": [2, 3]}, words, **here)
    words = ("bob is to get 3 GPUs, and this host has 2",)
    yield State(rule, "more than there are", {people + "1/gpus": 3}, words, **here)
    words = ("ada is to get all GPUs, and this host has 0",)
    none = {"found/gpus": [], people + "1/gpus": "none"}
    yield State(rule, "all of none", {**none, people + "0/gpus": "all"}, words, **here)
    yield State(rule, "none of none", {**none, people + "0/gpus": "none"}, **here)
    uuids = {people + "0/gpus": ["GPU-c03f7aa8", 0]}
    yield State(rule, "a UUID, of which the bus knows nothing", uuids, **here)
    yield State(rule, "all of some", {people + "0/gpus": "all"}, **here)
    rule = "workspace-memory"
    words = ("may use 4096 MiB together, and this host has 4095 MiB", "give less memory")
    yield State(rule, "a byte too much", {seen + "memory": 4 * GIB - 1}, words, **here)
    yield State(rule, "just as much", {seen + "memory": 4 * GIB}, **here)
    yield State(rule, "nobody knows", {seen + "memory": None}, **here)
    yield State(rule, "no limit", {seen + "memory": GIB, people + "0/memory": ""}, **here)
    rule, busy = "workspace-in-use", {seen + "in_use": {"eve": 1, "bob": 2}}
    words = (
        "have kernels, terminals or SSH open: bob (2), eve (1)",
        "-e gpu_workspace_in_use=stop",
    )
    yield State(rule, "people are at work", busy, words, **here)
    stop = {**shared()["options"], "gpu_workspace_in_use": "stop"}
    yield State(rule, "they are to be stopped", {**busy, "options": stop}, **here)
    yield State(rule, "nobody is", {seen + "in_use": {}}, **here)
