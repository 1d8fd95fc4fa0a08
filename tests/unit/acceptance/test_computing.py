"""The verdict on what TensorFlow did: every fault is named by its own check alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpu_stack.acceptance import judge, words
from gpu_stack.acceptance.checks import computing, copying, feeding

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import MODELS
from tests.unit.acceptance.test_judge import red
from tests.unit.acceptance.worked import (
    WORK_FAULTS,
    WorkFault,
    answer,
    broken,
    burnt,
    worked,
)


def of(verdict: dict[str, Any], check: str, gpu: int | None = None) -> dict[str, Any]:
    checks = verdict["checks"] if gpu is None else verdict["gpus"][gpu]["checks"]
    (entry,) = [entry for entry in checks if entry["check"] == check]
    return dict(entry)


@pytest.mark.parametrize("simulated", [False, True], ids=["GPUs", "logical CPU devices"])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_machine_that_worked_is_ok(name: str, count: int, simulated: bool) -> None:
    verdict = judge.judge(worked(name, count, simulated=simulated))
    assert red(verdict) == []
    assert (verdict["verdict"], verdict["level"]) == ("ok", "normal")
    assert verdict["stand_in"] == simulated


@pytest.mark.parametrize("fault", WORK_FAULTS.values(), ids=list(WORK_FAULTS))
def test_a_fault_of_the_work_is_named_by_its_own_check_alone(fault: WorkFault) -> None:
    facts = worked(count=fault.count, simulated=fault.simulated)
    fault.change(facts["work"])
    assert red(judge.judge(facts)) == [fault.red]


def test_every_check_of_the_work_has_a_fault() -> None:
    named = {fault.red[0] for fault in WORK_FAULTS.values()}
    checks = (
        *feeding.WORK_HOST, *computing.HOST, *copying.HOST, *computing.GPU, *copying.GPU,
        *judge.LONG_OF_GPU,
    )  # fmt: skip
    # These report and do not judge.
    assert {name for name, _ in checks} - named == {
        "rate_float32", "rate_float16", "copy_to", "copy_back"
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        burnt(),
        burnt(paces=[]),
        burnt(paces=[24.0]),
        # A card that warms up, one slow interval, and a slow first one.
        burnt(paces=[24.0] * 100 + [21.6] * 600),
        burnt(paces=[24.0] * 350 + [3.0] + [24.0] * 349),
        burnt(paces=[3.0] + [24.0] * 699),
        # Of two intervals both count: neither is the measure.
        burnt(paces=[24.0, 32.0] + [24.0] * 8),
    ],
)
def test_a_card_that_bears_the_burn_in_is_ok(change: Callable[[dict[str, Any]], None]) -> None:
    facts = worked()
    change(facts["work"])
    verdict = judge.judge(facts)
    assert red(verdict) == []
    assert of(verdict, "burn_in", 1)["state"] == "ok"


def test_a_stand_in_may_be_slowed_by_other_work() -> None:
    facts = worked(simulated=True)
    burnt(paces=[0.1, 0.01])(facts["work"])
    assert red(judge.judge(facts)) == []


SLOWER = [24.0] * 500 + [12.0] * 200
ADA = {"pid": 7, "kind": "compute", "used": 1, "user": "ada"}


def of_burn_in(processes: list[dict[str, Any]] | None, **values: Any) -> dict[str, Any]:
    """Card 1's finding, and whose processes are there once the burn-in has ended."""
    facts = worked()
    burnt(**values)(facts["work"])
    facts["nvml"]["gpus"][1]["processes"] = processes
    return of(judge.judge(facts), "burn_in", 1)


def test_who_came_during_the_burn_in_may_have_slowed_the_card() -> None:
    found = of_burn_in([ADA], paces=SLOWER)
    assert (found["state"], found["action"]) == ("measured", "nothing")
    words = "after 160000 products in 60 minutes the card has 50 % of its pace, and is not alone"
    assert found["reason"] == words + ": in use: ada"
    assert found["evidence"] == ["24 TFLOP/s at first, 12 at last, 12 at worst"]


@pytest.mark.parametrize(
    "processes",
    [[], None, [{**ADA, "kind": "graphics"}], [{**ADA, "user": None}]],
    ids=["none", "unsaid", "a display", "the burn-in's own, which has ended"],
)
def test_who_does_not_compute_there_excuses_no_slow_card(
    processes: list[dict[str, Any]] | None,
) -> None:
    assert of_burn_in(processes, paces=SLOWER)["state"] == "degraded"


def test_who_came_during_the_burn_in_excuses_no_wrong_product() -> None:
    assert of_burn_in([ADA], paces=SLOWER, differing=2)["state"] == "failed"
    assert of_burn_in([ADA], paces=[24.0] * 700)["state"] == "ok"


def test_without_work_its_checks_are_not_there() -> None:
    facts = worked()
    del facts["work"]
    verdict = judge.judge(facts)
    assert verdict["level"] == "quick"
    assert not {"product", "listed"} & {
        entry["check"] for entry in [*verdict["checks"], *verdict["gpus"][0]["checks"]]
    }


def test_what_fails_on_every_card_is_the_stack_and_no_card() -> None:
    facts = worked()
    for answers in facts["work"]["cards"].values():
        answers["convolution"] = broken("NotFoundError: libcudnn.so.8")
    verdict = judge.judge(facts)
    assert red(verdict) == [("convolution", index, "failed", "configure") for index in range(2)]
    assert of(verdict, "convolution", 0)["how"].startswith("look at the stack: provision verify")


def test_a_program_that_ended_once_and_then_worked_accuses_nobody() -> None:
    facts = worked()
    facts["work"]["cards"]["1"]["xla"]["first"] = broken("it was ended by signal 11")
    verdict = judge.judge(facts)
    assert red(verdict) == []
    assert of(verdict, "xla", 1)["evidence"] == [
        "the first of two tries failed: it was ended by signal 11"
    ]


def test_a_card_that_was_not_copied_with_exchanges_nothing() -> None:
    """Somebody had come by then, and was gone at the next program."""
    facts = worked(count=3)
    copies = facts["work"]["host"]["copies"]
    copies["order"] = ["0", "2"]
    copies["facts"] = {"host": copies["facts"]["host"][:2], "pairs": {}}
    verdict = judge.judge(facts)
    states = [of(verdict, "exchange", index)["state"] for index in range(3)]
    assert states == ["ok", "not applicable", "ok"]


def test_a_card_in_use_is_named_and_the_others_are_judged() -> None:
    facts = worked()
    facts["work"]["skipped"] = {"1": "in use: ada"}
    facts["work"]["order"] = ["0"]
    del facts["work"]["cards"]["1"]
    listed = facts["work"]["host"]["listed"]["facts"]
    listed["addresses"] = listed["addresses"][:1]
    facts["work"]["host"]["copies"]["facts"] = {
        "host": [{"wrong": 0, "to": 1.0, "back": 1.0}], "pairs": {}
    }  # fmt: skip
    for program, values in trained.host(1, "GPU").items():
        facts["work"]["host"][program]["facts"] = values
    for given in facts["work"]["host"].values():
        given["order"] = ["0"]
    verdict = judge.judge(facts)
    assert red(verdict) == []
    assert of(verdict, "product", 1)["reason"] == "not loaded: in use: ada"
    assert of(verdict, "product", 1)["state"] == "not applicable"
    assert of(verdict, "product", 0)["state"] == "ok"
    gpus = verdict["gpus"]
    assert [gpu["left_alone"] for gpu in gpus] == [None, "in use: ada"]
    *_, line = words.host("gpu07", {"status": "ok", "message": "", "acceptance": verdict})
    assert line == f"  {words.title(gpus[1])}: left alone: in use: ada"


def test_without_tensorflow_the_host_fails_once() -> None:
    facts = worked()
    facts["work"].update(missing="there is no TensorFlow: x does not exist", host={}, cards={})
    verdict = judge.judge(facts)
    assert {entry[0] for entry in red(verdict)} == {"listed"}
    assert of(verdict, "product", 0)["state"] == "not applicable"


def test_without_a_gpu_nothing_is_computed_and_nothing_is_red() -> None:
    facts = worked(count=0)
    facts["work"].update(kind=None, host={}, cards={}, order=[])
    verdict = judge.judge(facts)
    assert (red(verdict), verdict["verdict"]) == ([], "not applicable")


def test_a_card_that_does_not_say_its_memory_grows_as_asked_for() -> None:
    facts = worked()
    facts["nvml"]["gpus"][1]["memory"] = None
    assert of(judge.judge(facts), "growth", 1)["state"] == "ok"


def test_tensorflow_may_count_the_cards_in_another_order() -> None:
    facts = worked(count=3)
    facts["work"]["host"]["listed"]["order"].reverse()
    facts["work"]["host"]["listed"]["facts"]["addresses"].sort()
    assert computing.listed(facts)["state"] == "ok"


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ({}, set()),
        ({"0": {}}, set()),
        ({"0": {"xla": broken("no")}}, {"xla"}),
        ({"0": {"xla": broken("no")}, "1": {"xla": answer()}}, set()),
        ({"0": {"xla": broken("no")}, "1": {"product": answer()}}, {"xla"}),
        ({"0": {"xla": broken("no")}, "1": {"xla": broken("no")}, "2": {}}, {"xla"}),
        ({"0": {"xla": answer()}, "1": {"product": broken("no")}}, {"product"}),
    ],
)
def test_what_no_card_answers_is_no_cards_fault(cards: dict[str, Any], expected: set[str]) -> None:
    assert computing.everywhere(cards) == expected


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ({}, None),
        ({"host": {"listed": None}}, None),
        ({"host": {"listed": broken("no")}}, None),
        ({"host": {"listed": answer(version="2.9.3")}}, "2.9.3"),
    ],
)
def test_the_version_of_tensorflow_is_what_it_said(
    work: dict[str, Any], expected: str | None
) -> None:
    assert computing.version(work) == expected


def test_a_rate_is_measured_and_never_a_pass() -> None:
    entry = of(judge.judge(worked()), "rate_float32", 0)
    assert entry["state"] == "measured"
    assert entry["figure"] == {
        "name": "fp32_tflops", "value": 4.1, "unit": "TFLOP/s", "better": "higher"
    }  # fmt: skip


def test_the_host_line_says_what_stood_in() -> None:
    verdict = judge.judge(worked(simulated=True))
    (line,) = words.host("h", {"status": "ok", "message": "", "acceptance": verdict})
    assert line.startswith(
        "h: ok (its GPU is simulated; logical CPU devices computed in its place): 2 GPUs"
    )
