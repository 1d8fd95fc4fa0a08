"""A suspect is tried again before it is accused: of two tries the better one counts."""

from __future__ import annotations

import copy
from typing import Any

from gpu_stack.acceptance import words
from gpu_stack.acceptance.teaching import retrial

from tests.unit.acceptance.fleets import host, measured, rate_of


def test_the_better_of_two_tries_counts_and_both_are_said() -> None:
    first, second = host("a", [9.0, 14.0]), host("a", [14.2, 13.0])
    rate_of(first, 1)["evidence"] = ["of the first try"]
    merged = retrial.merged(first, second)
    assert rate_of(merged, 0)["figure"]["value"] == 14.2
    assert rate_of(merged, 0)["reason"] == "14.2 TFLOP/s"
    assert rate_of(merged, 0)["evidence"] == ["measured twice: 9 and 14.2 TFLOP/s"]
    assert rate_of(merged, 1)["figure"]["value"] == 14.0
    assert rate_of(merged, 1)["evidence"] == [
        "of the first try", "measured twice: 14 and 13 TFLOP/s"
    ]  # fmt: skip
    assert rate_of(first, 0)["evidence"] == rate_of(second, 0)["evidence"] == []


def test_where_less_is_better_the_lower_try_counts() -> None:
    first, second = host("a", [1.0]), host("a", [1.0])
    for verdict, value in ((first, 12.0), (second, 10.0)):
        verdict["gpus"][0]["checks"][-1] = measured(value, unit="ms", better="lower")
    assert rate_of(retrial.merged(first, second), 0)["figure"]["value"] == 10.0


def test_a_hosts_own_figures_are_tried_again_too() -> None:
    first, second = host("a", [1.0]), host("a", [1.0])
    first["checks"].append(measured(500, "train"))
    second["checks"].append(measured(1000, "train"))
    assert retrial.merged(first, second)["checks"][-1]["figure"]["value"] == 1000


def test_all_else_stays_as_it_was_the_first_time() -> None:
    first, second = host("a", [9.0]), host("a", [9.0])
    for entry in second["gpus"][0]["checks"]:
        if "figure" not in entry:
            entry["state"] = "failed"
    second.update(verdict="failed", action="reboot", driver="1")
    expected = copy.deepcopy(first)
    rate_of(expected, 0)["evidence"] = ["measured twice: 9 and 9 TFLOP/s"]
    assert retrial.merged(first, second) == expected


def test_a_figure_that_is_judged_already_is_not_replaced() -> None:
    first = host("a", [9.0])
    rate_of(first, 0)["state"] = "failed"
    assert retrial.merged(first, host("a", [14.0])) == first


def test_counters_are_not_tried_again() -> None:
    def counts(verdict: dict[str, Any]) -> list[dict[str, Any]]:
        return [entry for entry in verdict["gpus"][0]["checks"] if entry["check"] == "replays"]

    first, second = host("a", [9.0]), host("a", [9.0])
    counts(first)[0]["figure"]["value"] = 100
    assert counts(retrial.merged(first, second)) == counts(first)


def test_what_is_not_there_the_second_time_keeps_its_first_try() -> None:
    first, second = host("a", [9.0, 9.0, 9.0]), host("a", [14.0, 14.0])
    # A card that is another one, and a check that has no figure now.
    second["gpus"][0]["uuid"] = "GPU-other"
    del rate_of(second, 1)["figure"]
    assert retrial.merged(first, second) == first
    # The same figure, of another check.
    second["gpus"][1]["checks"][-1] = measured(14.0, "another")
    assert retrial.merged(first, second) == first


def test_two_figures_of_one_check_are_kept_apart() -> None:
    first, second = host("a", [9.0]), host("a", [9.5])
    for verdict, value in ((first, 1.0), (second, 2.0)):
        verdict["gpus"][0]["checks"].append(measured(value, name="other"))
    values = [entry["figure"]["value"] for entry in
              retrial.merged(first, second)["gpus"][0]["checks"][-2:]]  # fmt: skip
    assert values == [9.5, 2.0]


def left_alone(verdict: dict[str, Any], index: int, why: str) -> dict[str, Any]:
    """A second try in which a card was not loaded, and has no rate."""
    gpu = verdict["gpus"][index]
    gpu["left_alone"] = why
    gpu["checks"] = [entry for entry in gpu["checks"] if entry["check"] != "rate"]
    return verdict


def test_who_uses_a_card_the_second_time_may_have_slowed_it_the_first_time() -> None:
    """Then nobody knows how fast it is, and nothing compares it."""
    first = host("a", [9.0, 14.0])
    rate_of(first, 0)["evidence"] = ["of the first try"]
    second = left_alone(host("a", [0.0, 13.0]), 0, "in use: ada")
    merged = retrial.merged(first, second)
    assert rate_of(merged, 0) == {
        "check": "rate", "state": "measured", "reason": "9.0 TFLOP/s", "action": "nothing",
        "how": "",
        "evidence": ["of the first try", "not compared, as it was not measured again: in use: ada"],
    }  # fmt: skip
    assert rate_of(merged, 1)["figure"]["value"] == 14.0
    assert rate_of(first, 0)["figure"]["value"] == 9.0
    # Its counters have nothing to do with that, nor what has no figure.
    others = [entry for entry in merged["gpus"][0]["checks"] if entry["check"] != "rate"]
    assert others == [entry for entry in first["gpus"][0]["checks"] if entry["check"] != "rate"]


def test_what_a_card_reached_before_somebody_came_the_second_time_counts() -> None:
    second = host("a", [14.0])
    second["gpus"][0]["left_alone"] = "in use: ada"
    assert rate_of(retrial.merged(host("a", [9.0]), second), 0)["figure"]["value"] == 14.0


def test_what_is_judged_already_is_not_taken_back_for_who_came() -> None:
    first = host("a", [9.0])
    rate_of(first, 0)["state"] = "failed"
    assert retrial.merged(first, left_alone(host("a", [0.0]), 0, "in use: ada")) == first


def test_a_card_that_does_not_answer_the_second_time_is_not_excused() -> None:
    first = host("a", [9.0])
    assert retrial.merged(first, left_alone(host("a", [0.0]), 0, words.SILENT)) == first


def test_a_hosts_own_figure_is_not_compared_where_a_card_was_in_use_the_second_time() -> None:
    """What all cards do together is another measurement without one of them."""
    first, second = host("a", [9.0, 9.0]), host("a", [9.0, 0.0])
    first["checks"].append(measured(500, "train", name="of_2"))
    second["checks"].append(measured(1000, "train", name="of_1"))
    alone = retrial.merged(first, left_alone(second, 1, "in use: ada"))["checks"][-1]
    assert "figure" not in alone
    assert alone["evidence"] == ["not compared, as it was not measured again: in use: ada"]
    # A card that was not loaded the first time either is no reason.
    left_alone(first, 1, "MIG is on")
    left_alone(second, 1, "MIG is on")
    assert retrial.merged(first, second)["checks"][-1] == first["checks"][-1]
