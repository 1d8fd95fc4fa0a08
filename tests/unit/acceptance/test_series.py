"""What of a training is kept for pictures: rates by the number of GPUs, and how busy each was."""

from __future__ import annotations

import time
from typing import Any

import pytest
from gpu_stack.acceptance import judge, series

from tests.collection import PROGRAMS, loaded
from tests.unit.acceptance import trained
from tests.unit.acceptance.test_schema import valid
from tests.unit.acceptance.worked import burnt, worked

programs_card = loaded(PROGRAMS / "card.py")
NAN, INFINITE = float("nan"), float("inf")


def verdict(change: trained.Change | None = None, count: int = 3, **more: Any) -> dict[str, Any]:
    facts = worked(count=count, **more)
    if change is not None:
        change(facts["work"])
    made = judge.judge(facts)
    valid(made)
    return made


def rates(made: dict[str, Any]) -> dict[tuple[str, int], float | None]:
    entries = made["scaling"]["rates"]
    by_way = {(entry["way"], entry["gpus"]): entry["images_per_second"] for entry in entries}
    assert len(by_way) == len(entries)
    return by_way


def test_rates_are_those_of_the_training_together_and_else_of_the_cards_alone() -> None:
    made = verdict()
    assert (made["scaling"]["model"], made["scaling"]["batch"]) == ("ResNet-50", 64)
    # The host's own program had no time for "mixed 1", and is never asked for XLA.
    assert rates(made) == {
        ("float32", 1): 120.0, ("float32", 3): 330.0, ("mixed precision", 1): 260.0,
        ("mixed precision", 3): 600.0, ("XLA", 1): 140.0,
    }  # fmt: skip


def test_of_cards_that_differ_the_median_counts() -> None:
    def change(work: dict[str, Any]) -> None:
        for index, value in zip("012", (90.0, 200.0, 140.0), strict=True):
            work["cards"][index]["resnet"]["facts"]["rates"] = {"float32 1": value, "XLA 1": value}

    by_way = rates(verdict(change))
    assert by_way["XLA", 1] == 140.0
    # Measured in the training together, and so the one to compare with.
    assert by_way["float32", 1] == 120.0
    assert by_way["mixed precision", 1] is None


def test_a_card_with_another_batch_is_not_compared() -> None:
    def change(work: dict[str, Any]) -> None:
        for index in "012":
            work["cards"][index]["resnet"]["facts"]["batch"] = 32

    by_way = rates(verdict(change))
    assert ("XLA", 1) not in by_way
    assert by_way["mixed precision", 1] is None


def test_one_gpu_and_a_failed_training_together_leave_what_the_cards_did_alone() -> None:
    expected = {("float32", 1): 120.0, ("mixed precision", 1): 260.0, ("XLA", 1): 140.0}
    assert rates(verdict(count=1)) == expected
    assert rates(verdict(trained.ends("resnet"))) == expected


def test_what_is_no_number_is_left_out() -> None:
    def change(work: dict[str, Any]) -> None:
        facts = work["host"]["resnet"]["facts"]
        facts["rates"] = {
            "float32 1": 120.0, "float32 2": NAN, "float32 3": 330.0, "mixed 3": INFINITE,
            "XLA 3": 0.0,
        }  # fmt: skip

    by_way = rates(verdict(change))
    assert set(by_way) == {
        ("float32", 1), ("float32", 3), ("mixed precision", 1), ("XLA", 1)
    }  # fmt: skip


def test_without_any_training_there_is_nothing_to_draw() -> None:
    def change(work: dict[str, Any]) -> None:
        for answers in (work["host"], *work["cards"].values()):
            for program in ("resnet", "mirrored"):
                answers.pop(program, None)

    made = verdict(change)
    assert made["scaling"] is None
    assert [gpu["utilization"] for gpu in made["gpus"]] == [{}, {}, {}]


def test_a_quick_verdict_has_nothing_of_it() -> None:
    facts = worked()
    del facts["work"]
    made = judge.judge(facts)
    assert "scaling" not in made
    assert "utilization" not in made["gpus"][0]


def test_every_card_has_its_own_samples() -> None:
    def change(work: dict[str, Any]) -> None:
        work["host"]["mirrored"]["order"] = ["2", "0"]
        samples = [trained.busy(4, 60), trained.busy(4, 90)]
        work["host"]["mirrored"]["facts"].update(samples=samples, replicas=2)
        burnt()(work)

    made = verdict(change)
    first, second, third = (gpu["utilization"] for gpu in made["gpus"])
    assert first["together"] == [[0.0, 0.0], [0.2, 90.0], [0.5, 90.0], [0.8, 90.0]]
    assert third["together"][1] == [0.2, 60.0]
    assert "together" not in second
    assert len(second["burn_in"]) == 60
    assert second["burn_in"][-1] == [3562.5, 100.0]


def test_logical_cpu_devices_have_no_samples() -> None:
    made = verdict(simulated=True)
    assert [gpu["utilization"] for gpu in made["gpus"]] == [{}, {}, {}]
    assert made["scaling"]["model"] == "a small ResNet in the place of ResNet-50"
    assert made["stand_in"] is True


@pytest.mark.parametrize("count", [0, 1, 59, 60, 61, 120, 121, 5000])
def test_a_line_keeps_its_course_and_has_few_points(count: int) -> None:
    points = series.thinned([[float(number), number % 101] for number in range(count)])
    assert len(points) <= 60
    assert [point[0] for point in points] == sorted(point[0] for point in points)
    if count <= 60:
        assert [point[1] for point in points] == [number % 101 for number in range(count)]
    else:
        assert len(points) >= 30
        assert points[0][1] == points[0][0]


def test_neighbours_are_averaged() -> None:
    samples = [[0.0, 0], [1.0, 100], [2.0, 50], [3.0, 51], [4.0, 7]]
    assert series.thinned(samples, 3) == [[0.5, 50.0], [2.5, 50.5], [4.0, 7.0]]


@pytest.mark.parametrize(
    "samples",
    [None, [], [[0.0]], [[0.0, NAN]], [[INFINITE, 1]], [["0", 1]], ["ab"], [[-1.0, 1]], [[0, 101]]],
)
def test_what_is_no_sample_is_left_out(samples: Any) -> None:
    assert series.thinned(samples) == []


# the sampler, without NVML


class Busy:
    """A card that says so; after `answers` it does not answer any more."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    def busy(self) -> int:
        if not self.answers:
            raise RuntimeError("nvmlDeviceGetUtilizationRates: error 15")
        return self.answers.pop(0)


def sampled(*cards: Busy, seconds: float = 0) -> Any:
    sampler = programs_card.Sampler(cards, seconds)
    sampler._pause /= 100
    with sampler:
        deadline = time.monotonic() + 10
        while any(card.answers for card in cards) and time.monotonic() < deadline:
            time.sleep(0.001)
    return sampler


def test_a_sampler_knows_when_each_card_was_how_busy() -> None:
    first, second = sampled(Busy(0, 70, 100), Busy(5, 6)).samples
    assert [percent for _moment, percent in first][:2] == [0, 70]
    assert [percent for _moment, percent in second] == [5, 6]
    assert 0 <= first[0][0] <= first[1][0] <= 10


def test_a_long_work_is_sampled_more_seldom() -> None:
    assert programs_card.Sampler([]).samples == []
    assert programs_card.Sampler([], 6)._pause == 0.25
    assert programs_card.Sampler([], 3600)._pause == 15


def test_a_sampler_ends_at_once() -> None:
    began = time.monotonic()
    with programs_card.Sampler([], 3600):
        time.sleep(0.01)
    assert time.monotonic() - began < 5


def test_the_first_second_counts_for_no_share() -> None:
    samples = [(0.25 * number, percent) for number, percent in enumerate([0] * 4 + [9, 0, 90, 1])]
    assert programs_card.share(samples) == 0.75
    assert programs_card.share(samples[:4]) is None
