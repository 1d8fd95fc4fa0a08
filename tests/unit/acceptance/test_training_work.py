"""Which cards are asked to train, alone and together, and when they are asked again."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance import judge, work

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import machine
from tests.unit.acceptance.test_computing import of
from tests.unit.acceptance.test_work import Recorder, look, uuids
from tests.unit.acceptance.worked import answer, broken


def mirrored(**values: Any) -> dict[str, Any]:
    return answer(**{**trained.host(2, "GPU")["mirrored"], **values})


def test_cards_train_alone_and_then_together() -> None:
    facts, runner = machine(count=2), Recorder()
    look(facts, runner)
    together = ",".join(uuids(facts))
    assert sorted(runner.of("resnet")) == sorted([*uuids(facts), together])
    for program in ("mirrored", "checkpoints", "export"):
        assert runner.of(program) == [together]


def test_the_dense_network_is_trained_on_the_cpu_too_and_there_last() -> None:
    facts, runner = machine(count=2), Recorder()
    answers = look(facts, runner)
    assert sorted(runner.of("dense")) == sorted([*uuids(facts), work.NONE])
    assert runner.asked[-1] == ("dense", work.NONE, 1)
    assert answers["host"]["dense"]["order"] == []


def test_a_stand_in_is_no_faster_than_the_cpu_and_is_not_compared() -> None:
    facts, runner = machine(count=2), Recorder()
    facts["simulated"] = True
    answers = look(facts, runner)
    assert len(runner.of("dense")) == 2
    assert "dense" not in answers["host"]


def test_one_card_has_no_others_to_scale_with() -> None:
    facts, runner = machine(count=1), Recorder()
    answers = look(facts, runner)
    assert runner.of("resnet") == uuids(facts)
    assert "resnet" not in answers["host"]


def test_a_training_on_all_that_came_to_something_else_is_made_again() -> None:
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    wrong = mirrored(shares=[1.0, 0.0], weights=0.2)
    runner.answers["mirrored", together] = [wrong, mirrored()]
    answers = look(facts, runner)
    assert runner.of("mirrored") == [together, together]
    assert answers["host"]["mirrored"]["first"]["facts"] == wrong["facts"]
    assert answers["host"]["mirrored"]["facts"]["shares"][1] > 0.9


def test_a_card_that_spoils_training_on_all_is_left_out_in_turn() -> None:
    """Of three cards these are the three pairs: (1, 2), (0, 2) and (0, 1)."""
    facts, runner = machine(count=3), Recorder()
    first, second, third = uuids(facts)
    together = f"{first},{second},{third}"
    pairs = [f"{second},{third}", f"{first},{third}", f"{first},{second}"]
    runner.answers["mirrored", together] = [broken("it was ended by signal 6")] * 2
    for pair in (pairs[0], pairs[2]):
        runner.answers["mirrored", pair] = [mirrored(weights=0.2)]
    answers = look(facts, runner)
    assert runner.of("mirrored") == [together, together, *pairs]
    assert answers["late"] == {}
    verdict = judge.judge({**facts, "work": answers})
    sick = of(verdict, "together", 1)
    assert sick["reason"] == "training fails on all 3 GPUs, and on all but this one it is right"
    words = [f"training without GPU {index}: {word}" for index, word in zip(
        range(3), ("not right", "right", "not right"), strict=True)]  # fmt: skip
    assert sick["evidence"] == words
    assert of(verdict, "together", 0)["state"] == "not applicable"
    replicas = of(verdict, "replicas")
    assert replicas["state"] == "measured"
    assert replicas["reason"].startswith("see GPU 1: training on all cards failed")


@pytest.mark.parametrize(
    ("count", "wrong"),
    [
        (2, broken("it was ended by signal 6")),  # no other pair
        (3, mirrored(replicas=3, shares=[1.0, 0.0, 1.0], apart=[0.0] * 3)),  # it is known
        (3, mirrored(replicas=1, shares=[1.0], apart=[0.0])),  # the stack's
        (3, broken("ResourceExhaustedError: OOM")),
        (3, broken("no answer within 300 s", silent=True)),
    ],
)
def test_nobody_is_left_out_where_that_would_show_nothing(
    count: int, wrong: dict[str, Any]
) -> None:
    facts, runner = machine(count=count), Recorder()
    together = ",".join(uuids(facts))
    runner.answers["mirrored", together] = [wrong, wrong]
    look(facts, runner)
    assert set(runner.of("mirrored")) == {together}


@pytest.mark.parametrize("over", [2, 3])
def test_who_was_not_left_out_for_want_of_time_accuses_nobody(over: int) -> None:
    facts, runner = machine(count=3), Recorder()
    together = ",".join(uuids(facts))
    runner.answers["mirrored", together] = [broken("it was ended by signal 6")] * 2
    clock = iter(range(10000))
    asked = lambda: 1e9 if len(runner.of("mirrored")) >= over else next(clock) * 1e-6  # noqa: E731
    answers = look(facts, runner, clock=asked)
    assert "without" not in answers["host"]["mirrored"]
    verdict = judge.judge({**facts, "work": answers})
    assert of(verdict, "replicas")["state"] == "failed"
    assert of(verdict, "together", 1)["state"] == "not applicable"


def test_wrong_copies_are_made_again() -> None:
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    wrong = answer(host=[{"wrong": 3, "to": 1.0, "back": 1.0}] * 2, pairs={})
    runner.answers["copies", together] = [wrong]
    answers = look(facts, runner)
    assert runner.of("copies") == [together, together]
    verdict = judge.judge({**facts, "work": answers})
    assert of(verdict, "copies")["reason"].endswith("wrong once, and right when tried again")


@pytest.mark.parametrize("silent", [False, True])
def test_copies_that_gave_no_answer_are_not_made_again(silent: bool) -> None:
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    runner.answers["copies", together] = [broken("it was ended by signal 6", silent=silent)]
    look(facts, runner)
    assert runner.of("copies") == [together]


def test_one_that_hangs_is_not_made_again() -> None:
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    runner.answers["mirrored", together] = [broken("no answer within 300 s", silent=True)]
    answers = look(facts, runner)
    assert runner.of("mirrored") == [together]
    assert "first" not in answers["host"]["mirrored"]


def test_cards_that_hang_together_are_asked_nothing_more_together() -> None:
    """Each program would wait its whole time for them, half an hour in all."""
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    runner.answers["copies", together] = [broken("no answer within 600 s", silent=True)]
    answers = look(facts, runner, "long")
    assert set(answers["host"]) == {"listed", "copies", "dense"}
    assert [program for program, visible, _ in runner.asked if visible == together] == [
        "listed", "copies",
    ]  # fmt: skip
    # Which of them hangs nobody knows: each is burnt in alone.
    assert runner.of("burn") == uuids(facts)
    made = judge.judge(dict(facts, work=answers))
    assert of(made, "copies")["state"] == "failed"
    for check in ("replicas", "scaling", "checkpoints", "saved_model"):
        entry = of(made, check)
        assert (entry["state"], entry["reason"]) == (
            "not applicable", "not asked: copying gave no answer in time",
        )  # fmt: skip


def test_what_a_card_that_hangs_was_not_asked_is_said() -> None:
    facts, runner = machine(count=2), Recorder()
    second = uuids(facts)[1]
    runner.answers["product", second] = [broken("no answer within 300 s", silent=True)]
    made = judge.judge(dict(facts, work=look(facts, runner, "long")))
    assert of(made, "product", 1)["state"] == "failed"
    for check in ("pattern", "growth", "learns", "resnet50", "burn_in"):
        entry = of(made, check, 1)
        assert (entry["state"], entry["reason"]) == (
            "not applicable", "not asked: a product of matrices gave no answer in time",
        )  # fmt: skip
    assert of(made, "pattern", 0)["state"] == "ok"
