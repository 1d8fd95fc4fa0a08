"""Workspaces: the GPUs that containers list, and those that they were promised."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, proof
from gpu_stack.components.gpu_workspace.program import command, handed_gpus, places, programs
from workspace_machine import ADA, UUIDS, Machine, person, wish


class Handing:
    """docker on a host where containers list some GPUs."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists = {"ada": [UUIDS[0]], "bob": UUIDS}
        self.tensorflow = (0, "GPUS 1\n", "")
        self.runs: list[tuple[str, ...]] = []
        # What is asked in containers, and what one without GPUs says.
        self.asked: list[list[str]] = []
        self.without = (0, "", "")
        real = machine.call

        def call(command: list[str], **options: Any) -> tuple[int, str, str]:
            words = command[3:]
            if words[:1] == ["run"]:
                self.runs.append(tuple(words))
                return self.tensorflow
            return real(command, **options)

        def limited(command: list[str], **_options: Any) -> tuple[int, str, str]:
            self.asked.append(command[3:])
            name = command[6].removeprefix("gpu-workspace-")
            if command[7] == "/bin/sh":
                return self.without
            listed = self.lists[name]
            if not listed:
                return 9, "", "Failed to initialize NVML: Unknown Error\n"
            rows = [f"GPU {n}: T4 (UUID: {uuid})" for n, uuid in enumerate(listed)]
            return 0, "\n".join(rows), ""

        monkeypatch.setattr(programs, "call", call)
        monkeypatch.setattr(programs, "limited", limited)


@pytest.fixture
def handing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Handing:
    both = ({**ADA, "shared": True}, person("bob", port=8802, gpus="all", shared=True))
    bring.apply(wish(*both, person("eve", port=8803)))
    return Handing(machine, monkeypatch)


def test_a_gpu_that_is_gone_is_said_and_ends_nothing(
    handing: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handed_gpus, "gpus", list)
    wrong = handed_gpus.handed()["people"]["ada"]["wrong"]
    assert "GPU 0, which is gone" in wrong, wrong


def test_a_gpu_that_is_named_by_its_uuid_stays_where_a_card_is_added(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = person("bob", port=8802, gpus=[UUIDS[1], 2])
    bring.apply(wish({**ADA, "gpus": 1}, pinned))
    assert f'"device={UUIDS[1]},2"' in command.command("bob")
    assert '"device=0"' in command.command("ada")
    # By index, for who is given GPUs afterwards.
    assert json.loads(machine.text("/etc/gpu-workspace/bob/gpus.json")) == [1, 2]
    handing = Handing(machine, monkeypatch)
    handing.lists = {"ada": ["GPU-new00000"], "bob": UUIDS[1:2] + UUIDS[1:2]}
    monkeypatch.setattr(handed_gpus, "gpus", lambda: ["GPU-new00000", *UUIDS])
    assert handed_gpus.handed()["people"]["bob"]["wrong"] is None
    handing.lists["bob"] = [UUIDS[0], UUIDS[1]]
    assert f"({UUIDS[1]}, {UUIDS[1]})" in handed_gpus.handed()["people"]["bob"]["wrong"]
    monkeypatch.setattr(handed_gpus, "gpus", lambda: UUIDS[:1])
    wrong = handed_gpus.handed()["people"]["bob"]["wrong"]
    assert f"({UUIDS[1]}, which is gone, GPU 2, which is gone)" in wrong


def test_containers_that_list_what_was_promised(handing: Handing) -> None:
    assert handed_gpus.handed() == {
        "people": {
            "ada": {"gpus": UUIDS[:1], "wrong": None},
            "bob": {"gpus": UUIDS, "wrong": None},
            "eve": {"gpus": [], "wrong": None},
        },
        "tensorflow": {"gpus": 1, "wrong": None},
    }
    # Once for all, beside their containers and within nobody's limits.
    (run,) = handing.runs
    assert '--gpus "device=0" --entrypoint /bin/sh' in " ".join(run)
    assert "--memory" not in run


@pytest.mark.parametrize(
    ("listed", "wrong"),
    [
        ([], "nvidia-smi fails in its container: Failed to initialize NVML: Unknown Error"),
        (UUIDS[:2], "its container lists 2 GPUs (GPU-aaaaaaaa, GPU-bbbbbbbb), and 1 were promised"),
        (UUIDS[1:2], "its container lists 1 GPUs (GPU-bbbbbbbb), and 1 were promised (GPU-aaa"),
    ],
)
def test_a_container_that_lists_others_is_named(
    handing: Handing, listed: list[str], wrong: str
) -> None:
    handing.lists["ada"] = listed
    handed = handed_gpus.handed()["people"]
    assert handed["ada"]["wrong"].startswith(wrong)
    assert handed["bob"]["wrong"] is None


@pytest.mark.parametrize(
    ("answer", "gpus", "wrong"),
    [
        ((0, "GPUS none\n", ""), None, None),
        ((0, "GPUS 0\n", "x\nCould not load dynamic library 'libcudnn.so.8'\n"), 0, "libcudnn"),
        ((0, "GPUS 2\n", ""), 2, "lists 2 of the 1 GPUs of ada"),
        ((1, "", "ImportError: no numpy\n"), None, "TensorFlow fails in the image: ImportError"),
        ((0, "", ""), None, "TensorFlow fails in the image: status 0"),
    ],
)
def test_what_tensorflow_of_the_image_lists(
    handing: Handing, answer: tuple[int, str, str], gpus: int | None, wrong: str | None
) -> None:
    handing.tensorflow = answer
    tensorflow = handed_gpus.handed()["tensorflow"]
    assert tensorflow["gpus"] == gpus
    assert tensorflow["wrong"] is None if wrong is None else wrong in tensorflow["wrong"]


def test_root_runs_nothing_in_a_container_but_as_its_person(handing: Handing) -> None:
    """As root it was, by whatever PATH the container has: the person may have written it (M5)."""
    handed_gpus.handed()
    assert [command[:4] for command in handing.asked] == [
        ["exec", "--user", f"{uid}:{uid}", f"gpu-workspace-{name}"]
        for uid, name in ((70000, "ada"), (70001, "bob"), (70002, "eve"))
    ]
    assert handing.asked[0][4:] == ["timeout", "-k", "5", "60", "/usr/bin/nvidia-smi", "-L"]


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ((0, f"GPU 0: T4 (UUID: {UUIDS[0]})\n", ""), f"has GPUs ({UUIDS[0]}), and none were"),
        ((0, "DEVICE /dev/nvidia0\n", ""), "has GPUs (/dev/nvidia0), and none were promised"),
        ((1, "", "Failed to initialize NVML\n"), None),
        ((1, "", "Error: No such container: x\n"), "could not be asked for GPUs: Error: No such"),
        ((124, "", "no answer within 60 s"), "could not be asked for GPUs: no answer"),
    ],
)
def test_who_was_promised_no_gpu_has_none(
    handing: Handing, answer: tuple[int, str, str], wrong: str | None
) -> None:
    """An image that asks for all got all, where NVIDIA's runtime is docker's default (M4)."""
    handing.without = answer
    fault = handed_gpus.handed()["people"]["eve"]["wrong"]
    assert fault is None if wrong is None else wrong in fault
    words = " ".join(command.command("eve"))
    assert "--runtime runc --env NVIDIA_VISIBLE_DEVICES=void" in words
    assert "--gpus" not in words
    assert "--runtime" not in " ".join(command.command("ada"))


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo out; echo err >&2; exit 3", 3, "err"),
        ("yes", 124, "it says more than 1000 bytes"),
        ("sleep 60", 124, "no answer within 1 s"),
        ("printf 'a\\033]0;title\\007b' >&2; exit 1", 1, "a?]0;title?b"),
    ],
)
def test_what_a_container_says_is_bounded(script: str, code: int, words: str) -> None:
    """It is the person's: it may be endless, never come, or be written for a terminal."""
    # One second is enough for what never answers, and may be too few for a busy machine.
    timeout = 1 if script.startswith("sleep") else 60
    result = programs.limited(["/bin/sh", "-c", script], timeout=timeout, size=1000)
    assert (result[0], words in result[2]) == (code, True)
    assert len(result[1]) <= 1000


def test_gpus_that_a_container_does_not_list_fail_the_proof(
    handing: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "proven", lambda _name, _until: None)
    assert proof.prove("1")["proven"] == ["ada", "bob", "eve"]
    handing.tensorflow = (0, "GPUS 0\n", "")
    with pytest.raises(places.RefusedError, match="TensorFlow in the image lists 0 of the 1"):
        proof.prove("1")
    handing.lists["ada"] = []
    with pytest.raises(places.RefusedError, match="ada: nvidia-smi fails in its container"):
        proof.prove("1")


def test_the_script_tells_none_where_there_is_no_tensorflow() -> None:
    """For real: this Python has none, or has one; either way a line that is understood."""
    done = subprocess.run(
        ["/bin/sh", "-c", handed_gpus.LIST.replace('"tensorflow"', '"no_such_module"')],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "GPUS none\n"
