"""Models that can't be served."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import GIB, PRE, State, machine


def bare(found: dict[str, Any]) -> None:
    found["state"]["gpu_serving"] = {"version": None, "models": {}, "running": {}}


@fresh
def served() -> dict[str, Any]:
    """The machine, which is to serve two models; made up."""
    data = machine()
    data["found"]["gpus"] = [{"index": n, "device": "0x1eb8"} for n in range(2)]
    good = {"there": True, "newest": 2, "file": True, "tensorflow": "2.9.3"}
    good |= {"closed": None, "files": True}
    data["found"]["preflight"]["servings"] = {
        "docker": True,
        "ports": [],
        "memory": 4 * GIB,
        "models": {"bert": good, "mnist": copy.deepcopy(good)},
        "swapped": {},
    }
    data["options"]["gpu_workspaces"] = []
    uids: dict[str, Any] = {"users": {}, "taken": {}, "homes": {}, "root": None}
    data["found"]["state"]["gpu_workspace"].update(files={}, uids=uids)
    data["options"]["gpu_servings"] = [
        {
            "name": "mnist",
            "models": "/srv/models/mnist",
            "gpus": [0],
            "port": 8501,
            "files": "",
            "tensorrt": False,
        },
        {
            "name": "bert",
            "models": "/srv/models/bert",
            "gpus": [1],
            "port": 8502,
            "grpc_port": 8503,
            "memory": "4g",
        },
    ]
    return data


SEEN, MODELS = PRE + "servings/", "options/gpu_servings/"
MNIST = SEEN + "models/mnist/"
ADA = {"name": "ada", "gpus": [0], "port": 8801}
HERE: dict[str, Any] = {"base": served, "only": ("gpu_serving",)}


def states() -> Iterator[State]:
    yield from list_states()
    yield from model_states()
    yield from room_states()


def list_states() -> Iterator[State]:
    rule = "serving-list"
    words = ("gpu_servings: mnist: port is a port of the host", "provision explain gpu_servings")
    yield State(rule, "a value is out of its form", {MODELS + "0/port": 0}, words, **HERE)
    words = ("port 8801 is said twice (workspace ada and model mnist)",)
    same = {MODELS + "0/port": 8801, "options/gpu_workspaces": [{**ADA, "gpus": "none"}]}
    yield State(rule, "a port is a workspace's", same, words, **HERE)
    yield State(rule, "all are in it", {}, **HERE)
    rule, gone = "serving-docker", {SEEN + "docker": False}
    words = ("models are served by its containers (bert, mnist)", "install docker.io")
    yield State(rule, "docker does not answer", gone, words, **HERE)
    yield State(rule, "nothing is to be served", {**gone, "options/gpu_servings": []}, **HERE)
    yield State(rule, "docker answers", {}, **HERE)
    rule, used = "serving-port", SEEN + "ports"
    words = ("port 8503 of the model bert is in use", "give bert another port")
    yield State(rule, "something listens at a port", {used: [8503]}, words, **HERE)
    yield State(rule, "something listens at another", {used: [8601]}, **HERE)
    yield State(rule, "nothing does", {used: []}, **HERE)


def model_states() -> Iterator[State]:
    rule = "serving-models"
    for fact, changes, text in (
        (
            "its directory is missing",
            {MNIST + "there": False},
            "the model mnist is to come from /srv/models/mnist, and there is no such directory",
        ),
        (
            "there is no version",
            {MNIST + "newest": None},
            "/srv/models/mnist of the model mnist has no version",
        ),
        (
            "its user can't read it",
            {MNIST + "closed": "/srv/models/mnist/2"},
            "uid 65534, by whom the model mnist is served, can't read /srv/models/mnist/2",
        ),
        (
            "the newest version is no model",
            {MNIST + "file": False},
            "version 2 of the model mnist has no saved_model.pb",
        ),
        (
            "the files are missing",
            {MNIST + "files": False, MODELS + "0/files": "/srv/tflite"},
            "the files of the model mnist are to come from /srv/tflite",
        ),
    ):
        yield State(rule, fact, changes, (text,), **HERE)
    yield State(rule, "all are there", {}, **HERE)
    rule, saved = "serving-release", MNIST + "tensorflow"
    words = ("version 2 of the model mnist was saved by TensorFlow 2.12.0", "or an older 2.x")
    yield State(rule, "a newer one saved it", {saved: "2.12.0"}, words, **HERE)
    yield State(rule, "an older one did", {saved: "2.4.1"}, **HERE)
    yield State(rule, "it does not say", {saved: None}, **HERE)
    rule, why = "serving-swapped", "/data/ada/m: /data/ada belongs to uid 1000"
    words = ("a directory of the model mnist can be swapped for a link", why, "/srv/models/mnist")
    theirs = {SEEN + "swapped": {"mnist": why, "other": "x"}}
    yield State(rule, "others can replace a directory", theirs, words, **HERE)
    yield State(rule, "root alone can", {SEEN + "swapped": {}}, **HERE)


def room_states() -> Iterator[State]:
    rule, gpus = "serving-gpu", MODELS + "0/gpus"
    words = ("model mnist asks for GPU 2, and nvidia-smi lists 0 to 1", "indices count from 0")
    yield State(rule, "an index that is not there", {gpus: [2]}, words, **HERE)
    words = ("GPU 0 is promised twice, to ada and model mnist",)
    theirs, listed = {"options/gpu_workspaces": [ADA]}, ("serving-list",)
    yield State(rule, "a workspace has it", theirs, words, also=listed, **HERE)
    words = ("ada asks for 1 GPUs, and 0 of the host's 2 are left",)
    counted = {"options/gpu_workspaces": [{**ADA, "gpus": 1}]}
    yield State(rule, "none is left for a workspace", counted, words, **HERE)
    yield State(rule, "one is", {**counted, gpus: "none"}, **HERE)
    yield State(rule, "each has its own", {}, **HERE)
    rule = "serving-memory"
    words = ("may use 4096 MiB together, and this host has 4095 MiB", "give less memory")
    yield State(rule, "a byte too much", {SEEN + "memory": 4 * GIB - 1}, words, **HERE)
    yield State(rule, "just as much", {SEEN + "memory": 4 * GIB}, **HERE)
    yield State(rule, "nobody knows", {SEEN + "memory": None}, **HERE)
    rule = "serving-tensorrt"
    words = ("mnist can't be converted by TF-TRT: it needs libnvinfer.so.7", "leave `tensorrt` out")
    yield State(rule, "somebody wishes for TF-TRT", {MODELS + "0/tensorrt": True}, words, **HERE)
    yield State(rule, "nobody does", {MODELS + "0/tensorrt": False}, **HERE)
