"""Which ways lie between the cards, and which cards are taken together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from gpu_stack.acceptance import topology

# The best last.
WAYS = ("unknown", "SYS", "NODE", "PHB", "PXB", "PIX", "X", "NV1", "NV2", "NV12")


@pytest.mark.parametrize(
    ("worse", "better"),
    list(itertools.pairwise(WAYS)),
)
def test_the_better_way_is_taken(worse: str, better: str) -> None:
    known = {"0-1": worse, "0-2": better, "1-2": worse}
    assert topology.best_sets(known)["2"] == [0, 2]


def three(first: tuple[str, str, str], second: tuple[str, str, str]) -> list[int]:
    """The best three of four: 0, 1 and 2 have the first ways between them, the last the second."""
    known = dict.fromkeys(("0-1", "0-2", "0-3", "1-2", "1-3", "2-3"), "unknown")
    # 0-1-2 and 1-2-3 share a way: it is the first of both.
    known.update({"1-2": first[0], "0-1": first[1], "0-2": first[2]})
    known.update({"1-3": second[1], "2-3": second[2]})
    assert first[0] == second[0]
    return topology.best_sets(known)["3"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # The slowest way counts first: a ring is as fast as that.
        (("PHB", "NV4", "SYS"), ("PHB", "PHB", "PHB"), [1, 2, 3]),
        # Then all of them: an NVLink and each level have their worth.
        (("SYS", "X", "SYS"), ("SYS", "PXB", "PXB"), [1, 2, 3]),
        (("SYS", "X", "X"), ("SYS", "NV1", "SYS"), [0, 1, 2]),
        (("SYS", "NV2", "SYS"), ("SYS", "X", "X"), [0, 1, 2]),
        (("SYS", "NV1", "SYS"), ("SYS", "X", "PIX"), [0, 1, 2]),
        (("SYS", "NV1", "SYS"), ("SYS", "X", "X"), [0, 1, 2]),
        # Of equal ones that with the lowest numbers.
        (("PIX", "PIX", "PIX"), ("PIX", "PIX", "PIX"), [0, 1, 2]),
    ],
)
def test_the_best_three_of_four(
    first: tuple[str, str, str], second: tuple[str, str, str], expected: list[int]
) -> None:
    assert three(first, second) == expected


def test_a_way_that_is_unknown_takes_nothing_from_the_others() -> None:
    known = {f"{first}-{second}": "unknown" for second in range(6) for first in range(second)}
    known.update({"0-2": "PIX", "3-5": "PHB", "4-5": "NODE"})
    assert topology.best_sets(known)["3"] == [0, 1, 2]


def test_cards_are_counted_as_numbers() -> None:
    known = {"1-8": "PIX", "1-10": "SYS", "8-10": "SYS"}
    assert topology.best_sets(known) == {"2": [1, 8], "3": [1, 8, 10]}


def test_the_best_set_avoids_the_slowest_way() -> None:
    """A ring over all of them is as fast as its slowest part."""
    known = {"0-1": "PIX", "0-2": "SYS", "0-3": "SYS", "1-2": "SYS", "1-3": "SYS", "2-3": "PXB"}
    assert topology.best_sets(known) == {"2": [0, 1], "3": [0, 1, 2], "4": [0, 1, 2, 3]}


def test_sets_of_more_cards_than_can_be_tried_are_left_out() -> None:
    known = {f"{first}-{second}": "PIX" for second in range(17) for first in range(second)}
    assert topology.best_sets(known) == {}


def test_sixteen_cards_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_scores", lambda *_: [0])
    known = {f"{first}-{second}": "PIX" for second in range(16) for first in range(second)}
    assert list(topology.best_sets(known)) == [str(count) for count in range(2, 17)]


def card(index: int, *peers: str | None, up: bool = True, error: str | None = None) -> Any:
    if error:
        return {"index": index, "error": error}
    links = [{"peer": peer, "up": up} for peer in peers]
    return {"index": index, "error": None, "pci": f"{index:02x}:00.0", "links": links}


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([card(0, "01:00.0"), card(1, "00:00.0")], "NV1"),
        ([card(0, "01:00.0", "01:00.0"), card(1, "00:00.0", "00:00.0")], "NV2"),
        ([card(0, "01:00.0", up=False), card(1, "00:00.0", up=False)], "SYS"),
        ([card(0, None), card(1, None)], "SYS"),
        ([card(0, "7f:00.0"), card(1)], "SYS"),
        ([card(0, "01:00.0"), card(1, error="GPU is lost")], "SYS"),
        ([card(0, error="GPU is lost"), card(1, "00:00.0")], "SYS"),
        # NVSwitches: as many as the one with fewer has.
        ([card(0, "7f:00.0", "7e:00.0"), card(1, "7f:00.0", "7e:00.0")], "NV2"),
        ([card(0, "7f:00.0", "7e:00.0"), card(1, "7f:00.0")], "NV1"),
        ([card(0, "7f:00.0"), card(1, "7f:00.0", "7e:00.0")], "NV1"),
        ([card(0, "7f:00.0", up=False), card(1, "7f:00.0")], "SYS"),
        # A link of its own counts, and not those to switches.
        ([card(0, "01:00.0", "7f:00.0", "7e:00.0"),
          card(1, "00:00.0", "7f:00.0", "7e:00.0")], "NV1"),
        # Another GPU of the bus is no switch, though the driver does not answer for it.
        ([card(0, "02:00.0"), card(1, "02:00.0")], "SYS"),
    ],
)  # fmt: skip
def test_nvlinks_are_counted(gpus: list[Any], expected: str) -> None:
    assert ways({"gpus": gpus, "topology": {"0-1": "SYS"}}) == {"0-1": expected}


def ways(nvml: dict[str, Any]) -> dict[str, str]:
    return topology.pairs(nvml, ["00:00.0", "01:00.0", "02:00.0"])


def test_a_level_that_the_driver_does_not_say_is_unknown() -> None:
    nvml = {"gpus": [card(0), card(1)], "topology": {"0-1": None}}
    assert ways(nvml) == {"0-1": "unknown"}
