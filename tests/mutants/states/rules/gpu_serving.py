"""Models that can't be served."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from check_states import GONE, fresh
from rule_states import GIB, PRE, State, machine

from . import gpu_front_door, slurm


def bare(found: dict[str, Any]) -> None:
    found["state"]["gpu_serving"] = {"version": None, "models": {}, "running": {}}


@fresh
def served() -> dict[str, Any]:
    """The machine, which is to serve two models; made up."""
    data = machine()
    data["found"]["gpus"] = [{"index": n, "device": "0x1eb8"} for n in range(2)]
    good = {"there": True, "crowded": False, "newest": 2, "file": True, "tensorflow": "2.9.3"}
    good |= {"closed": None, "files": True}
    data["found"]["preflight"]["servings"] = {
        "docker": True,
        "ports": [],
        "memory": 4 * GIB,
        "models": {"bert": good, "mnist": copy.deepcopy(good)},
        "swapped": {},
        "kept": {},
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
            "shared": False,
            "files": "",
            "user": "65534:65534",
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


@fresh
def led() -> dict[str, Any]:
    """The machine that is to serve two models, behind a front door."""
    data = served()
    data["found"]["state"]["gpu_front_door"].update(
        gpu_front_door.doored()["found"]["state"]["gpu_front_door"]
    )
    data["options"] |= {
        "gpu_front_door_name": "gpu01.example.org",
        "gpu_front_door_redirect": False,
    }
    return data


@fresh
def divided() -> dict[str, Any]:
    """The machine that is to serve two models, and to be a node of Slurm's."""
    data = served()
    node = slurm.clustered()
    data["found"]["state"]["slurm"].update(node["found"]["state"]["slurm"])
    names = ("slurm_state", "slurm_cluster", "slurm_compute", "slurm_controller")
    data["options"] |= {name: node["options"][name] for name in names}
    data["options"]["slurm_gpus"] = []
    return data


@fresh
def serving_before() -> dict[str, Any]:
    """The machine, which serves a model already, with a TensorFlow of another lock."""
    data = served()
    image = data["options"]["gpu_serving_image"] = "sha256:" + "a" * 64
    record = {"settings": {"image": image}, "release": "2.12"}
    data["found"]["state"]["gpu_serving"]["models"] = {"mnist": {"record": record}}
    return data


SEEN, MODELS = PRE + "servings/", "options/gpu_servings/"
MNIST = SEEN + "models/mnist/"
ADA = {"name": "ada", "gpus": [0], "port": 8801}
HERE: dict[str, Any] = {"base": served, "only": ("gpu_serving",)}
LAST: dict[str, Any] = {"base": serving_before, "only": ("gpu_serving",)}


def states() -> Iterator[State]:
    yield from list_states()
    yield from model_states()
    yield from room_states()


def list_states() -> Iterator[State]:
    rule = "serving-list"
    words = ("gpu_servings: mnist: port is a port of the host", "provision explain gpu_servings")
    yield State(rule, "a value is out of its form", {MODELS + "0/port": 0}, words, **HERE)
    door, plain = {**HERE, "base": led}, "options/gpu_front_door_redirect"
    words = ("port 80 is said twice (the front door and model mnist)",)
    yield State(rule, "a port is the door's", {MODELS + "0/port": 80, plain: True}, words, **door)
    yield State(rule, "the door does not open it", {MODELS + "0/port": 80}, **door)
    words = ("port 8801 is said twice (workspace ada and model mnist)",)
    same = {MODELS + "0/port": 8801, "options/gpu_workspaces": [{**ADA, "gpus": "none"}]}
    yield State(rule, "a port is a workspace's", same, words, **HERE)
    yield State(rule, "all are in it", {}, **HERE)
    yield State(rule, "the last one goes", {"options/gpu_servings": GONE}, **LAST)
    yield State(rule, "a host without workspaces", {"options/gpu_workspaces": GONE}, **HERE)
    alone = {**door, "only": ("gpu_front_door",)}
    yield State("front-door-nobody", "a model is behind it", {}, **alone)
    rule, gone = "serving-docker", {SEEN + "docker": False}
    words = ("models are served by its containers (bert, mnist)", "install docker.io")
    yield State(rule, "docker does not answer", gone, words, **HERE)
    yield State(rule, "nothing is to be served", {**gone, "options/gpu_servings": []}, **HERE)
    yield State(rule, "the last one goes", {**gone, "options/gpu_servings": []}, **LAST)
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
            "it has everything else in it as well",
            {MNIST + "crowded": True},
            "/srv/models/mnist of the model mnist has more than 10000 entries",
        ),
        (
            "there is no version",
            {MNIST + "newest": None},
            "/srv/models/mnist of the model mnist has no version",
        ),
        (
            "its user can't read it",
            {MNIST + "closed": "/srv/models/mnist/2", MODELS + "0/user": "1000:2000"},
            "uid 1000, by whom the model mnist is served, can't read /srv/models/mnist/2",
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
    rule, before = "serving-image-release", {"base": serving_before, "only": ("tensorflow",)}
    record = "found/state/gpu_serving/models/mnist/record/"
    words = ("models are served by TensorFlow 2.12, and the lock's is 2.9.3: mnist", "by -e")
    yield State(rule, "another lock's image serves", {}, words, **before)
    yield State(rule, "this lock's does", {record + "release": "2.9"}, **before)
    yield State(rule, "nobody asked the image", {record + "release": ""}, **before)
    yield State(rule, "its record can't be read", {record[:-1]: None}, **before)
    yield State(rule, "the record has no image", {record + "settings": GONE}, **before)
    both = dict.fromkeys(
        ("mnist", "bert"), serving_before()["found"]["state"]["gpu_serving"]["models"]["mnist"]
    )
    words = ("and the lock's is 2.9.3: bert, mnist",)
    yield State(rule, "both are another's", {record.rpartition("/mnist")[0]: both}, words, **before)
    other = {"options/gpu_serving_image": "sha256:" + "b" * 64}
    yield State(rule, "another image is wished for", other, **before)
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
    words = ("GPU 0 is promised twice, to ada and model mnist",)
    alone = {MODELS + "0/shared": True, **theirs}
    yield State(rule, "a workspace has it alone", alone, words, also=listed, **HERE)
    odd = {"options/gpu_servings": [], "options/gpu_workspaces": [{**ADA, "gpus": [5]}]}
    yield State(rule, "no model is to be served", odd, **LAST)
    words = ("ada asks for 1 GPUs, and 0 of the host's 2 are left",)
    counted = {"options/gpu_workspaces": [{**ADA, "gpus": 1}]}
    yield State(rule, "none is left for a workspace", counted, words, **HERE)
    yield State(rule, "one is", {**counted, gpus: "none"}, **HERE)
    gone = {**served()["options"], "nvidia_container_toolkit_state": "absent"}
    words = ("docker will know no GPUs", "have some: bert, mnist", "leave the toolkit")
    yield State(rule, "the toolkit is to go", {"options": gone}, words, **HERE)
    none = [{**model, "gpus": "none"} for model in gone["gpu_servings"]]
    yield State(rule, "nobody needs it", {"options": {**gone, "gpu_servings": none}}, **HERE)
    words = ("GPU 0 is promised twice, to Slurm and to model mnist",)
    nodes, theirs = {**HERE, "base": divided}, "options/slurm_gpus"
    yield State(rule, "Slurm gives it out", {theirs: [0]}, words, **nodes)
    idle = {theirs: [0], "options/slurm_compute": False}
    yield State(rule, "no job of Slurm's runs here", idle, **nodes)
    stays = {**idle, "found/state/slurm/leaves": ["gpu01"]}
    yield State(rule, "this run leaves it a node of Slurm's", stays, words, **nodes)
    yield State(rule, "Slurm's own is not there", {theirs: [9]}, **nodes)
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    yield State(rule, "a model names it by UUID", {gpus: [uuid]}, **HERE)
    words = ("GPU 0 of the model mnist is ada's now, who asked for 1", "give the model another")
    has = {**counted, MODELS + "1/gpus": "none", SEEN + "kept": {"ada": [0]}}
    yield State(rule, "somebody has been given it", has, words, **HERE)
    both = {
        "options/gpu_workspaces": [{**ADA, "gpus": 1, "shared": True}],
        MODELS + "0/shared": True,
    }
    yield State(rule, "both share it", {**has, **both}, **HERE)
    for who, changes in (
        ("the model alone is shared", {MODELS + "0/shared": True}),
        (
            "the workspace alone is",
            {"options/gpu_workspaces": [{**ADA, "gpus": 1, "shared": True}]},
        ),
    ):
        yield State(rule, who, {**has, **changes}, words, **HERE)
    every = {**has, gpus: "all"}
    yield State(rule, "the model gets them all", every, words, also=listed, **HERE)
    moved = {"options/gpu_workspaces": [{**ADA, "gpus": [1]}]}
    yield State(rule, "somebody asks for another", {**has, **moved}, **HERE)
    both_change = {**HERE, "only": ("gpu_serving", "gpu_workspace")}
    yield State(rule, "the workspace changes as well", has, **both_change)
    yield State(rule, "somebody has the other", {**has, SEEN + "kept": {"ada": [1]}}, **HERE)
    yield State(rule, "each has its own", {}, **HERE)
    rule = "serving-memory"
    words = ("may use 4096 MiB together, and this host has 4095 MiB", "give less memory")
    yield State(rule, "a byte too much", {SEEN + "memory": 4 * GIB - 1}, words, **HERE)
    yield State(rule, "just as much", {SEEN + "memory": 4 * GIB}, **HERE)
    people = {"options/gpu_workspaces": [{**ADA, "gpus": "none", "memory": "2g"}]}
    words = ("may use 6144 MiB together",)
    yield State(rule, "a workspace uses it", people, words, **HERE)
    yield State(rule, "nobody knows", {SEEN + "memory": None}, **HERE)
    rule = "serving-tensorrt"
    words = ("mnist can't be converted by TF-TRT: it needs libnvinfer.so.7", "leave `tensorrt` out")
    yield State(rule, "somebody wishes for TF-TRT", {MODELS + "0/tensorrt": True}, words, **HERE)
    models = served()["options"]["gpu_servings"]
    two = {MODELS[:-1]: [{**model, "tensorrt": True} for model in models]}
    yield State(rule, "both do", two, ("bert, mnist can't be converted",), **HERE)
    yield State(rule, "nobody does", {MODELS + "0/tensorrt": False}, **HERE)
