"""Which cards and hosts are alike, and by what they are known on another day."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance.teaching import subjects

from tests.unit.acceptance.fleets import host, measured

Verdict = dict[str, Any]


def cards(verdict: Verdict) -> list[Any]:
    return [subject for subject in subjects.subjects("a", verdict) if subject.gpu is not None]


def whole(verdict: Verdict) -> Any:
    (found,) = [subject for subject in subjects.subjects("a", verdict) if subject.gpu is None]
    return found


def changed(gpu: dict[str, Any] | None = None, **more: Any) -> Verdict:
    verdict = host("a", [1.0], "NVIDIA H100", **more)
    facts = {"memory": {"total": 85 * 2**30 + 5}, "power_limit": 700000,
             "power_limit_default": 700000}  # fmt: skip
    verdict["gpus"][0]["measured"].update(facts | (gpu or {}))
    return verdict


def test_a_card_is_what_it_is_and_how_it_is_set() -> None:
    verdict = changed()
    (card,) = cards(verdict)
    assert card == subjects.Subject(
        "a", 0, "GPU-a-0",
        "H100; 900-2G183-0000-001; 87040 MiB; 700 W; driver 550; TensorFlow 2.9; level normal",
        "NVIDIA H100", True, verdict["gpus"][0]["checks"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "more", "like"),
    [
        ({"mig": True}, {}, "87040 MiB; 700 W; MIG; driver 550; TensorFlow 2.9; level normal"),
        ({"power_limit": None}, {}, "87040 MiB; driver 550; TensorFlow 2.9; level normal"),
        ({"memory": None}, {}, "0-001; 700 W; driver 550; TensorFlow 2.9; level normal"),
        ({}, {"tensorflow": None}, "87040 MiB; 700 W; driver 550; level normal"),
        ({}, {"driver": None}, "87040 MiB; 700 W; TensorFlow 2.9; level normal"),
        ({}, {"level": ""}, "87040 MiB; 700 W; driver 550; TensorFlow 2.9"),
        ({}, {"level": "", "driver": None, "tensorflow": "2.10.1rc0"}, "700 W; TensorFlow 2.10"),
        ({}, {"simulated": True}, "TensorFlow 2.9; level normal; simulated"),
    ],
)
def test_what_is_not_known_is_left_out(
    gpu: dict[str, Any], more: dict[str, Any], like: str
) -> None:
    (card,) = cards(changed(gpu, **more))
    assert card.like.endswith(like)


def test_a_card_without_a_name_is_one_of_a_kind_of_its_own() -> None:
    verdict = changed()
    verdict["gpus"][0].update(name=None, part=None, uuid=None)
    (card,) = cards(verdict)
    assert (card.model, card.id) == ("", None)
    assert card.like.startswith("87040 MiB; ")


@pytest.mark.parametrize(
    ("gpu", "more", "plain"),
    [
        ({"power_limit": 699000}, {}, False),
        ({"power_limit": 701000}, {}, True),
        ({"power_limit": None}, {}, True),
        ({"power_limit_default": None}, {}, True),
        ({"mig": True}, {}, False),
        ({}, {"simulated": True}, False),
    ],
)
def test_a_card_that_is_held_back_is_not_plain(
    gpu: dict[str, Any], more: dict[str, Any], plain: bool
) -> None:
    (card,) = cards(changed(gpu, **more))
    assert card.plain is plain


def test_a_host_is_its_cards_together_in_whatever_order() -> None:
    verdict = host("a", [1.0, 1.0, 1.0])
    verdict["gpus"][0]["part"] = "x"
    made = "Made Up 1; {0}; 15360 MiB; 70 W"
    expected = (
        f"1 x ({made.format('x')}); 2 x ({made.format('900-2G183-0000-001')}); "
        "driver 550; TensorFlow 2.9; level normal"
    )
    subject = whole(verdict)
    assert sorted(subject.like.split("); ")) == sorted(expected.split("); "))
    assert subject[:3] == ("a", None, "GPU-a-0 GPU-a-1 GPU-a-2")
    assert (subject.model, subject.plain, subject.checks) == ("", False, verdict["checks"])
    verdict["gpus"].reverse()
    assert whole(verdict) == subject


def test_a_host_whose_cards_have_no_name_is_not_known_again() -> None:
    verdict = host("a", [1.0, 1.0])
    verdict["gpus"][0]["uuid"] = None
    assert whole(verdict).id is None
    verdict["gpus"][1]["uuid"] = None
    assert whole(verdict).id is None


def test_nothing_that_failed_is_a_subject() -> None:
    verdict = host("a", [1.0, 1.0])
    verdict["gpus"][0]["verdict"] = "failed"
    assert [subject.gpu for subject in subjects.subjects("a", verdict)] == [1, None]
    verdict["verdict"] = "failed"
    assert [subject.gpu for subject in subjects.subjects("a", verdict)] == [1]
    assert subjects.subjects("a", host("a", [])) == []


def test_only_numbers_are_figures() -> None:
    assert all(subjects.is_number(value) for value in (0, -1.5, 10**299))
    no_numbers: list[Any] = [None, "1", float("nan"), float("inf"), 1e300, -1e300, 10**400]
    assert not any(subjects.is_number(value) for value in no_numbers)


def test_the_figures_are_those_in_the_states_that_are_asked_for() -> None:
    verdict = host("a", [1.0])
    checks = verdict["gpus"][0]["checks"]
    checks += [{**measured(2.0, state), "state": state} for state in ("ok", "degraded", "failed")]
    checks.append({**measured(3.0, "stand-in"), "stand_in": True})
    checks.append(measured(float("nan"), "no number"))
    checks.append(measured(4.0, "last"))
    (card,) = cards(verdict)

    def names(*states: tuple[str, ...]) -> list[str]:
        found = [entry["check"] for at, entry in subjects.figures_of(card, *states)
                 if checks[at] is entry]  # fmt: skip
        return [name for name in found if name != "replays"]

    assert names() == ["rate", "ok", "last"]
    assert names(("degraded",)) == ["degraded"]
