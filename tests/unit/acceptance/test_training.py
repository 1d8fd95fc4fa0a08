"""The verdict on training: every fault is named by its own check alone, and no healthy machine."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance import judge
from gpu_stack.acceptance.checks import kept, training

from tests.unit.acceptance import trained, work_edges
from tests.unit.acceptance.test_computing import of
from tests.unit.acceptance.test_judge import red
from tests.unit.acceptance.worked import answer, worked


def verdict(change: trained.Change | None = None, count: int = 3, **more: Any) -> dict[str, Any]:
    facts = worked(count=count, **more)
    if change is not None:
        change(facts["work"])
    return judge.judge(facts)


def work_after(change: trained.Change | None, count: int = 3) -> dict[str, Any]:
    """What the programs came to on healthy cards, changed."""
    work: dict[str, Any] = worked(count=count)["work"]
    if change is not None:
        change(work)
    return work


@pytest.mark.parametrize("name", trained.FAULTS)
def test_a_fault_of_training_is_named_by_its_own_check_alone(name: str) -> None:
    change, expected = trained.FAULTS[name]
    assert red(verdict(change)) == [expected]


def test_every_check_of_training_that_judges_has_a_fault() -> None:
    names = {name for name, _ in (*training.HOST, *training.GPU, *kept.HOST)}
    assert names - {expected[0] for _, expected in trained.FAULTS.values()} == {
        "dense", "resnet50", "resnet50_mixed", "resnet50_xla", "resnet50_fed", "resnet50_unfed"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["no gradient of one", "other weights"])
def test_the_host_says_which_card_is_named(name: str) -> None:
    """What the others came to follows from it."""
    entry = of(verdict(trained.FAULTS[name][0]), "replicas")
    assert entry["state"] == "measured"
    assert entry["reason"].startswith("see GPU 1: loss differs by ")


def test_of_two_cards_with_other_weights_both_are_named() -> None:
    change = trained.of_all("mirrored", apart=[5e-5, 5e-5])
    made = verdict(change, count=2)
    assert red(made) == [("replicas", None, "failed", "reset")]
    assert "the weights of GPU 0 and GPU 1 are not the same" in of(made, "replicas")["reason"]


def test_of_two_cards_the_one_without_a_gradient_is_named() -> None:
    change = trained.of_all("mirrored", shares=[1.0, 0.0], weights=0.2)
    assert red(verdict(change, count=2)) == [("together", 1, "failed", "reset")]


def test_cards_are_named_by_their_own_numbers() -> None:
    """The programs count devices from 0, whichever cards are free."""
    facts = worked(count=3)
    work = facts["work"]
    work["skipped"], work["order"] = {"0": "in use: ada"}, ["1", "2"]
    del work["cards"]["0"]
    work["host"]["listed"]["facts"]["addresses"] = [gpu["pci"] for gpu in facts["nvml"]["gpus"][1:]]
    copies = work["host"]["copies"]["facts"]
    work["host"]["copies"]["facts"] = {"host": copies["host"][:2], "pairs": {}}
    for program, values in trained.host(2, "GPU").items():
        work["host"][program]["facts"] = values
    for given in work["host"].values():
        given["order"] = ["1", "2"]
    work["host"]["mirrored"]["facts"]["shares"] = [1.0, 0.0]
    made = judge.judge(facts)
    assert red(made) == [("together", 2, "failed", "reset")]
    assert of(made, "together", 0)["reason"] == "not loaded: in use: ada"


@pytest.mark.parametrize(
    ("change", "check", "gpu"),
    [
        (trained.of_card("dense", accuracy=0.9), "learns", 1),
        (trained.of_all("mirrored", shares=[0.951, 1.049, 1.0]), "together", 1),
        (trained.of_all("mirrored", apart=[1e-6, 1e-6, 0.0]), "together", 0),
        (trained.of_all("mirrored", loss=1e-3, weights=1e-3), "replicas", None),
        (trained.of_all("mirrored", busy=[0.5, 1.0, 1.0]), "busy", 0),
        (trained.of_all("checkpoints", began=None, may_begin=[3, None, 0]), "checkpoints", None),
        (trained.of_all("checkpoints", difference=1e-6), "checkpoints", None),
        (trained.of_all("export", saved_model={"difference": 1e-4}), "saved_model", None),
        (trained.lite("float32", difference=1e-4), "tflite", None),
        (trained.lite("mixed_float16", error=None, difference=1e-2), "tflite_mixed", None),
    ],
)
def test_what_is_just_within_its_bound_is_ok(
    change: trained.Change, check: str, gpu: int | None
) -> None:
    made = verdict(change)
    assert red(made) == []
    assert of(made, check, gpu)["state"] == "ok"


def test_stand_ins_agree_more_closely() -> None:
    change = trained.of_all("mirrored", weights=1e-4)
    assert red(verdict(change)) == []
    assert red(verdict(change, simulated=True)) == [("replicas", None, "failed", "configure")]


def test_what_only_a_card_can_show_is_not_applicable_without() -> None:
    made = verdict(simulated=True)
    assert of(made, "busy", 0)["state"] == "not applicable"
    assert of(made, "busy", 0)["reason"] == "only a real GPU can show it"
    assert of(made, "resnet50", 0)["reason"].endswith("a small ResNet in the place of ResNet-50")
    assert of(made, "scaling")["reason"].endswith(", on one CPU")


def test_stand_ins_share_a_cpu_and_may_be_slower_together() -> None:
    assert red(verdict(trained.slower_together, simulated=True)) == []


def test_one_card_trains_alone() -> None:
    made = verdict(count=1)
    assert red(made) == []
    for entry in (of(made, "together", 0), of(made, "scaling")):
        assert (entry["state"], entry["reason"]) == ("not applicable", "one GPU trains alone")
    assert of(made, "replicas")["state"] == "ok"


@pytest.mark.parametrize(
    ("check", "gpu", "name", "value"),
    [
        ("dense", 0, "dense_rows", 50000.0),
        ("resnet50", 0, "resnet50", 120.0),
        ("resnet50_mixed", 0, "resnet50_mixed", 260.0),
        ("resnet50_xla", 0, "resnet50_xla", 140.0),
        ("resnet50_fed", 0, "resnet50_fed", 119.0),
        ("resnet50_unfed", 0, "resnet50_unfed", 80.0),
        ("scaling", None, "resnet50_scaling_3", 110 / 120),
    ],
)
def test_a_rate_is_a_figure_and_never_a_pass(
    check: str, gpu: int | None, name: str, value: float
) -> None:
    entry = of(verdict(), check, gpu)
    assert entry["state"] == "measured"
    assert (entry["figure"]["name"], entry["figure"]["better"]) == (name, "higher")
    assert entry["figure"]["value"] == pytest.approx(value)
    assert "stand_in" not in entry
    # A stand-in's says nothing of a card.
    assert of(verdict(simulated=True), check, gpu)["stand_in"] is True


def test_the_dense_network_is_compared_with_the_cpu() -> None:
    words = "7.5 s for 5 epochs of 60000 rows, 4.2 times as fast as the CPU"
    assert of(verdict(), "dense", 0)["reason"] == words


def test_what_there_was_no_time_for_is_said() -> None:
    rates = {"float32 1": 100.0}
    made = verdict(trained.of_all("resnet", rates=rates, left_out=["float32 3"]))
    assert of(made, "scaling")["reason"] == "no time was left for it"
    made = verdict(trained.of_card("resnet", rates=rates, left_out=["XLA 1"]))
    assert of(made, "resnet50_xla", 1)["reason"] == "no time was left for it"


def test_a_mixed_model_that_cannot_be_converted_has_a_way_out() -> None:
    entry = of(verdict(), "tflite_mixed")
    assert entry["state"] == "not applicable"
    assert entry["reason"] == (
        "a model of mixed_float16 can't be converted to TFLite (TFLite has no tf.Cast for these "
        "types): build it anew in float32, give it the weights, and convert that"
    )


def test_without_tensorboard_its_logs_are_not_applicable() -> None:
    logs = {"error": "No module named 'tensorboard'", "logged": [], "trained": [2.1]}
    made = verdict(trained.of_all("export", logs=logs))
    assert red(made) == []
    entry = of(made, "tensorboard")
    assert entry["reason"] == "TensorBoard is not installed: No module named 'tensorboard'"


def test_a_training_that_ended_too_soon_to_be_killed_shows_nothing() -> None:
    made = verdict(trained.of_all("checkpoints", killed=None, may_begin=[]))
    assert of(made, "checkpoints")["state"] == "not applicable"


def test_a_program_that_gives_no_answer_is_reported_once() -> None:
    made = verdict(trained.ends("export"))
    reason = "exporting a model failed: RuntimeError: no"
    assert of(made, "saved_model")["reason"] == reason
    for check in ("tensorboard", "tflite", "tflite_mixed"):
        entry = of(made, check)
        assert (entry["state"], entry["reason"]) == ("not applicable", reason)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, False),
        *((trained.FAULTS[name][0], True) for name in ("no gradient of one", "other weights")),
        *((trained.FAULTS[name][0], True) for name in ("another loss", "no training on all")),
        (lambda work: work["host"].pop("mirrored"), False),
        (lambda work: work["host"]["mirrored"].update(error="x", silent=True), False),
    ],
)
def test_what_would_accuse_somebody_is_asked_again(
    change: trained.Change | None, expected: bool
) -> None:
    assert training.disputed(work_after(change)) is expected


def test_what_had_no_room_is_no_dispute() -> None:
    change = work_edges.COMPUTING["no memory for all together"].change
    assert training.disputed(work_after(change)) is False


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, False),
        (trained.FAULTS["no training on all"][0], True),
        (trained.FAULTS["another loss"][0], True),
        (trained.FAULTS["no gradient of one"][0], False),
        (trained.FAULTS["not in sync"][0], False),
        (work_edges.COMPUTING["no memory for all together"].change, False),
        (lambda work: work["host"].pop("mirrored"), False),
        (lambda work: work["host"]["mirrored"].update(error="x", silent=True), False),
    ],
)
def test_which_trainings_of_three_are_to_be_tried_without_each(
    change: trained.Change | None, expected: bool
) -> None:
    assert training.unresolved(work_after(change)) is expected


def test_two_cards_are_never_tried_without_each() -> None:
    assert training.unresolved(work_after(trained.FAULTS["another loss"][0], count=2)) is False


def test_a_card_that_was_taken_before_its_last_question_is_no_suspect() -> None:
    gpu = worked(count=1)["nvml"]["gpus"][0]
    answers = {"by_uuid": answer(addresses=[gpu["pci"]])}
    assert not training.suspect(gpu, "GPU", "by_uuid", answers)
