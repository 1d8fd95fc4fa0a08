"""What a card did is its own, though the look after it counts the cards anew.

NVML's indexes are places: a card that falls off the bus moves those behind it.
"""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance import judge, words

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import machine
from tests.unit.acceptance.test_computing import of
from tests.unit.acceptance.worked import fails, of_host, product_of, worked
from tests.verdicts import red

Facts = dict[str, Any]
GONE = ("count", None, "failed", "reboot")


def count_anew(facts: Facts, gpus: list[dict[str, Any]]) -> Facts:
    """The facts, where NVML counts these cards after the work, in this order."""
    places = {gpu["index"]: place for place, gpu in enumerate(gpus)}
    ways = [(pair.split("-"), way) for pair, way in facts["nvml"]["topology"].items()]
    facts["nvml"]["topology"] = {
        "-".join(str(place) for place in sorted(places[int(index)] for index in pair)): way
        for pair, way in ways
        if all(int(index) in places for index in pair)
    }
    facts["nvml"]["gpus"] = [dict(gpu, index=place) for place, gpu in enumerate(gpus)]
    return facts


def without_one(facts: Facts) -> Facts:
    """GPU 1 of four has fallen off the bus."""
    gpus = facts["nvml"]["gpus"]
    return count_anew(facts, [gpus[0], *gpus[2:]])


def test_a_card_has_not_the_answers_of_one_that_has_fallen_off_the_bus() -> None:
    facts = worked(count=4)
    fails("convolution", "1")(facts["work"])
    uuids = [gpu["uuid"] for gpu in facts["nvml"]["gpus"]]
    for index, answers in facts["work"]["cards"].items():
        answers["product"]["facts"]["float32"]["tflops"] = 10.0 + int(index)
    verdict = judge.judge(without_one(facts))
    assert red(verdict) == [GONE]
    assert [(gpu["index"], gpu["uuid"]) for gpu in verdict["gpus"]] == [
        (0, uuids[0]), (2, uuids[2]), (3, uuids[3]),
    ]  # fmt: skip
    rates = [of(verdict, "rate_float32", place)["figure"]["value"] for place in range(3)]
    assert rates == [10.0, 12.0, 13.0]
    assert [set(gpu["utilization"]) for gpu in verdict["gpus"]] == [{"together"}] * 3
    assert verdict["pairs"] == {"0-2": "PXB", "0-3": "PHB", "2-3": "PIX"}
    assert verdict["sets"] == {"2": [2, 3], "3": [0, 2, 3]}


@pytest.mark.parametrize(("shares", "blamed"), [([1, 0, 1, 1], None), ([1, 1, 0, 1], 2)])
def test_what_a_training_on_all_says_of_a_card_stays_with_it(
    shares: list[float], blamed: int | None
) -> None:
    facts = worked(count=4)
    of_host("mirrored", shares=shares, loss=0.3, weights=0.1)(facts["work"])
    verdict = judge.judge(without_one(facts))
    sick = [] if blamed is None else [("together", blamed, "failed", "reset")]
    assert red(verdict) == [GONE, *sick]
    # As GPU 0, 2 and 3 are named where the host is judged.
    assert of(verdict, "replicas")["reason"].startswith(f"see GPU {shares.index(0)}: ")


def test_a_card_that_is_lost_by_its_work_keeps_its_place() -> None:
    facts = worked(count=3)
    fails("convolution", "1")(facts["work"])
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    facts["nvml"]["topology"] = {"0-2": "PXB"}
    verdict = judge.judge(facts)
    assert red(verdict) == [("answers", 1, "failed", "reboot")]
    assert [gpu["index"] for gpu in verdict["gpus"]] == [0, 1, 2]
    assert of(verdict, "listed")["state"] == "ok"
    assert set(verdict["gpus"][1]["utilization"]) == {"together"}


def lost_before() -> Facts:
    """GPU 1 of three did not answer when the others were loaded."""
    facts, lost = worked(count=3), {"index": 1, "error": "GPU is lost"}
    facts["work"].update(skipped={"1": words.SILENT}, order=["0", "2"])
    facts["work"]["gpus"]["1"] = {"uuid": None, "pci": None}
    del facts["work"]["cards"]["1"]
    listed = facts["work"]["host"]["listed"]["facts"]
    del listed["addresses"][1]
    copies = facts["work"]["host"]["copies"]["facts"]
    copies.update(host=copies["host"][:2], pairs={"0-1": {"wrong": 0, "rate": 9.0}})
    for program, values in trained.host(2, "GPU").items():
        facts["work"]["host"][program]["facts"] = values
    for given in facts["work"]["host"].values():
        given["order"] = ["0", "2"]
    return count_anew(facts, [facts["nvml"]["gpus"][0], lost, facts["nvml"]["gpus"][2]])


def test_a_card_that_never_answered_keeps_its_place() -> None:
    verdict = judge.judge(lost_before())
    assert red(verdict) == [("answers", 1, "failed", "reboot")]
    assert [gpu["left_alone"] for gpu in verdict["gpus"]] == [None, words.SILENT, None]


def test_a_card_that_answers_only_after_the_work_has_its_place_and_no_answers() -> None:
    facts = lost_before()
    facts["nvml"]["gpus"][1] = machine("Tesla T4", 3)["nvml"]["gpus"][1]
    verdict = judge.judge(facts)
    assert red(verdict) == []
    assert [gpu["index"] for gpu in verdict["gpus"]] == [0, 1, 2]
    assert verdict["gpus"][1]["left_alone"] == words.SILENT
    assert of(verdict, "product", 1)["state"] == "not applicable"


@pytest.mark.parametrize("place", [1, 2])
def test_another_card_has_an_index_that_none_had(place: int) -> None:
    """In the place of GPU 1, which is gone, or in one that GPU 2 had before it moved."""
    facts = worked(count=3)
    product_of("float32", error=1.0)(facts["work"])
    gpus = facts["nvml"]["gpus"]
    other = dict(gpus[1], uuid="GPU-other")
    rest = [gpus[0], gpus[2]]
    count_anew(facts, [*rest[:place], other, *rest[place:]])
    verdict = judge.judge(facts)
    assert red(verdict) == []
    found = verdict["gpus"][place]
    assert (found["index"], found["uuid"], found["left_alone"]) == (3, "GPU-other", None)
    assert of(verdict, "product", place)["state"] == "not applicable"
    assert sorted(gpu["index"] for gpu in verdict["gpus"]) == [0, 2, 3]


def test_cards_that_were_not_there_before_have_their_own_index_each() -> None:
    facts = worked(count=2)
    gpus = facts["nvml"]["gpus"]
    more = machine("Tesla T4", 4)["nvml"]["gpus"][2:]
    facts["bus"] = machine("Tesla T4", 4)["bus"]
    facts["nvml"]["topology"] = {}
    facts["nvml"]["gpus"] = [
        dict(gpu, index=place) for place, gpu in enumerate([more[0], gpus[0], more[1], gpus[1]])
    ]
    verdict = judge.judge(facts)
    assert [gpu["index"] for gpu in verdict["gpus"]] == [4, 0, 2, 1]
    assert red(verdict) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # GPU 1 did not answer before the work, and GPU 2 does not after it.
        (["GPU-a", None, "GPU-c"], ["GPU-a", "GPU-b", None], [0, 1, 2]),
        # GPU 2 has moved to 1, and what is in place 2 does not answer: 2 is GPU 2's own.
        (["GPU-a", "GPU-b", "GPU-c"], ["GPU-a", "GPU-c", None], [0, 2, 3]),
    ],
)
def test_a_card_without_a_uuid_takes_no_other_cards_index(
    before: list[str | None], after: list[str | None], expected: list[int]
) -> None:
    loaded = {str(index): {"uuid": uuid} for index, uuid in enumerate(before)}
    gpus = [{"index": index, "uuid": uuid} for index, uuid in enumerate(after)]
    answer = judge._as_loaded({"gpus": gpus, "topology": {}}, loaded)
    assert [gpu["index"] for gpu in answer["gpus"]] == expected
