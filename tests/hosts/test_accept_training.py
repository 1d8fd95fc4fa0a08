"""Training on a host with two simulated GPUs: in order, out of order to order, and killed.

Logical CPU devices stand in for the GPUs, in the real TensorFlow 2.9.3 of the host.
"""

from __future__ import annotations

import json
import random
import shlex
from typing import Any

import faulty_training
import faulty_work
import pytest
from conftest import Project
from test_accept import accept, red
from test_accept_work import HOST, uuids, worker

pytestmark = [pytest.mark.hosts, pytest.mark.slow]

__all__ = ["worker"]
KILLS = 20
# A training may end before it is killed; of so many not all do.
TRIES = 200
COPY = "/tmp/provision-test-training"
# Seconds that a training takes from its first step to its end, about.
LONG = 1.5


def checks(entry: dict[str, Any], gpu: int | None = None) -> dict[str, dict[str, Any]]:
    verdict = entry["acceptance"]
    found = verdict["checks"] if gpu is None else verdict["gpus"][gpu]["checks"]
    return {check["check"]: check for check in found}


def test_a_host_that_trains_right_is_accepted(worker: Project) -> None:
    code, output, entry = accept(worker, "--level", "normal")
    assert (code, red(entry)) == (0, []), output
    host, card = checks(entry), checks(entry, 1)
    named = ("replicas", "checkpoints", "tensorboard", "saved_model", "tflite")
    assert {host[name]["state"] for name in named} == {"ok"}
    assert card["learns"]["state"] == card["together"]["state"] == "ok"
    assert card["busy"]["reason"] == "only a real GPU can show it"
    assert "a small ResNet in the place of ResNet-50" in card["resnet50"]["reason"]
    assert host["scaling"]["state"] == "measured"
    assert host["checkpoints"]["reason"].endswith(
        "the training went on and came to the same weights"
    )
    # TensorFlow 2.9 has no TFLite of a mixed model; its way out is a person's.
    assert "can't be converted to TFLite" in host["tflite_mixed"]["reason"]


@pytest.mark.parametrize("name", faulty_training.TRAINING)
def test_a_fault_of_training_is_named_by_its_own_check_alone(worker: Project, name: str) -> None:
    fault = faulty_training.TRAINING[name]
    check, of_card, state, action = fault.red
    with faulty_work.ordered(worker.path, fault, uuids(worker)[1]):
        code, output, entry = accept(worker, "--level", "normal")
    assert red(entry) == [(check, 1 if of_card else None, state, action)], output
    assert code == 5


def test_a_slow_card_is_slower_than_the_other(worker: Project) -> None:
    """Measured, and no fault: nothing is known to compare a stand-in with."""
    slow = faulty_work.Faulty(faulty_training.SLOW, ("dense", True, "measured", "nothing"))
    with faulty_work.ordered(worker.path, slow, uuids(worker)[1]):
        _code, output, entry = accept(worker, "--level", "normal")
    assert red(entry) == [], output
    first, second = (checks(entry, gpu)["dense"]["figure"]["value"] for gpu in range(2))
    assert second < first / 2


def test_a_training_that_is_killed_at_any_moment_comes_to_the_same_end(worker: Project) -> None:
    """Twenty times, at random moments; the seed is in the message."""
    (programs,) = worker.path.glob("collections/**/acceptance/programs")
    worker.ssh(HOST, f"rm -rf {COPY}; mkdir -p {COPY}/programs")
    for path in programs.glob("*.py"):
        text = shlex.quote(path.read_text("utf-8"))
        worker.ssh(HOST, f"printf %s {text} >{COPY}/programs/{path.name}")
    seed = random.randrange(2**32)  # noqa: S311 no secret
    moments = random.Random(seed)  # noqa: S311 no secret
    killed = 0
    try:
        for _turn in range(TRIES):
            if killed == KILLS:
                break
            after = moments.uniform(0, LONG)
            given = json.dumps({"kind": "CPU", "count": 1, "kill_after": after})
            output = worker.ssh(
                HOST,
                f"cd {COPY} && CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=2 "
                f"/opt/tensorflow/current/bin/python -B -m programs.checkpoints '{given}'",
                timeout=1200,  # TensorFlow starts four times, on a machine that may be busy
            )
            facts = json.loads(output.splitlines()[-1].partition(" ")[2])
            if facts["killed"] is None:
                continue
            killed += 1
            assert facts["began"] in facts["may_begin"], (seed, after, facts)
            assert facts["difference"] == 0, (seed, after, facts)
            assert facts["files"] == facts["epochs"], (seed, after, facts)
    finally:
        worker.ssh(HOST, f"rm -rf {COPY}")
    assert killed == KILLS, seed
