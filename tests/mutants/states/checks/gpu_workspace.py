"""Workspaces that don't run, let anybody in, or have lost their GPUs or limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import State, fresh, machine


@fresh
def shared() -> dict[str, Any]:
    """The machine with workspaces for two; made up, not recorded."""
    data = machine()
    data["options"]["gpu_workspaces"] = [
        {
            "name": "ada",
            "gpus": [0],
            "port": 8801,
            "cpus": 0.5,
            "memory": "512m",
            "tensorboard_port": 8901,
        },
        {"name": "bob", "gpus": "none", "kind": "ssh", "ssh_port": 2202},
    ]
    limits = {"cpu": ["50000"], "memory": ["536870912"]}
    one = {"unit": "active", "error": None, "status": 403, "ssh": None, "limits": limits}
    one["tensorboard"] = 200
    free = {"cpu": ["-1"], "memory": ["9223372036854771712"]}
    data["probe"]["workspaces"] = {"ada": one, "bob": {**one, "limits": free}}
    data["probe"]["workspaces"]["bob"] |= {"status": None, "ssh": "publickey"}
    data["probe"]["workspaces"]["bob"]["tensorboard"] = None
    data["probe"]["handed"] = {
        "people": {
            "ada": {"gpus": ["GPU-a"], "wrong": None},
            "bob": {"gpus": [], "wrong": None},
        },
        "tensorflow": {"gpus": 1, "wrong": None},
    }
    return data


ADA = "probe/workspaces/ada"


def states() -> Iterator[State]:
    yield from of_what_answers()
    yield from of_gpus()
    yield from of_limits()


def of_what_answers() -> Iterator[State]:
    runs, answers = "gpu_workspace.runs", "gpu_workspace.jupyter"
    ssh, bob, board = "gpu_workspace.ssh", "probe/workspaces/bob/ssh", "gpu_workspace.tensorboard"
    port = "driver failed: port is already allocated"
    for check, fact, changes, words in (
        (runs, "somebody stopped a unit", {f"{ADA}/unit": "inactive"}, "ada: its unit is inactive"),
        (runs, "a unit is gone", {f"{ADA}/unit": ""}, "ada: its unit is not there"),
        (runs, "docker could not start it", {f"{ADA}/error": "docker: failed\n" + port}, port),
        (answers, "nothing answers", {f"{ADA}/status": None}, "ada: nothing answers at its port"),
        (
            answers,
            "anybody is let in",
            {f"{ADA}/status": 200},
            "it answers without a token, with status 200",
        ),
        (ssh, "sshd does not answer", {bob: ""}, "bob: sshd does not answer at its port"),
        (ssh, "a password would do", {bob: "publickey,password"}, "by publickey,password"),
        (
            board,
            "nothing answers",
            {f"{ADA}/tensorboard": None},
            "ada: nothing answers at its port",
        ),
        (board, "another program answers", {f"{ADA}/tensorboard": 404}, "answers with status 404"),
    ):
        yield State(check, fact, changes, (words,), base=shared, machine_only=True)


def of_gpus() -> Iterator[State]:
    check, handed = "gpu_workspace.gpus", "probe/handed"
    lost = "nvidia-smi fails in its container: Failed to initialize NVML: Unknown Error"
    for fact, changes, words in (
        ("a container lost its GPUs", {f"{handed}/people/ada/wrong": lost}, f"ada: {lost}"),
        (
            "a container was not asked",
            {f"{handed}/people": {"bob": {"gpus": [], "wrong": None}}},
            "ada: it was not asked",
        ),
        (
            "one without GPUs has all of them",
            {f"{handed}/people/bob/wrong": "its container has GPUs (GPU-a), and none were"},
            "bob: its container has GPUs (GPU-a)",
        ),
        (
            "the containers can't be asked",
            {handed: {"error": "docker did not answer within 60 s"}},
            "could not be asked: docker did not answer within 60 s",
        ),
        (
            "TensorFlow of the image lists none",
            {f"{handed}/tensorflow/wrong": "TensorFlow in the image lists 0"},
            "TensorFlow in the image lists 0",
        ),
    ):
        yield State(check, fact, changes, (words,), base=shared, machine_only=True)


def of_limits() -> Iterator[State]:
    check = "gpu_workspace.limits"
    for fact, changes, words in (
        (
            "the memory has no limit",
            {f"{ADA}/limits/memory": ["max"]},
            "memory is limited to max, not 536870912",
        ),
        (
            "the processors have none",
            {f"{ADA}/limits/cpu": ["max", "100000"]},
            "cpu is limited to max, not 50000",
        ),
        (
            "the kernel's file is gone",
            {f"{ADA}/limits": {}},
            "memory is limited to nothing, not 536870912",
        ),
    ):
        yield State(check, fact, changes, (words,), base=shared, machine_only=True)
