"""What newer drivers say of a card themselves, as it is read of NVML."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import judge, nvml, own_word, xids
from gpu_stack.acceptance.checks import recovery

from provision.locallab import gpu
from tests.unit.acceptance.machines import A100, machine

T4 = "Tesla T4"
NOTHING = dict.fromkeys(own_word.KEYS)
WELL = {
    "recovery": 0,
    "repairs": {"channel": False, "tpc": False},
    "sram": {"exceeded": 0, "parity_ever": 0, "secded_ever": 0},
    "banks": {"max": 640, "high": 0, "partial": 0, "low": 0, "none": 0},
    "unrepairable": 0,
}


@pytest.mark.parametrize(
    ("structure", "size", "offsets"),
    [
        (own_word.Field, 40, [0, 4, 8, 16, 24, 28, 32]),
        (own_word.Sram, 104, [0, *range(8, 97, 8)]),
        (own_word.Repairs, 12, [0, 4, 8]),
        (own_word.Banks, 20, [0, 4, 8, 12, 16]),
    ],
)
def test_a_structure_lies_in_memory_as_nvml_h_has_it(
    structure: Any, size: int, offsets: list[int]
) -> None:
    """What gcc says of nvml.h of CUDA 13.3 on x86_64: sizeof, and offsetof of each member."""
    assert ctypes.sizeof(structure) == size
    assert [getattr(structure, name).offset for name, *_ in structure._fields_] == offsets


def test_a_versioned_structure_has_nvml_hs_version() -> None:
    """nvmlEccSramErrorStatus_v1 and nvmlRepairStatus_v1, as gcc computes them."""
    assert own_word._version(own_word.Sram) == 0x1000068
    assert own_word._version(own_word.Repairs) == 0x100000C


def own_words(library: tuple[str, Path], name: str, driver: str, **health: str) -> dict[str, Any]:
    """What the first of two GPUs says, which alone is sick."""
    path, config = library
    row = gpu.model(name)
    made = gpu.Simulated(
        name=name,
        memory_mib=row.memory_mib,
        compute_capability=row.compute_capability,
        driver_version=driver,
        health={0: health},
    )
    config.write_text(made.text(), "ascii")
    first, _second = nvml.read(path)["gpus"]
    return {key: first[key] for key in own_word.KEYS}


def test_a_new_driver_says_all_of_a_new_card(library: tuple[str, Path]) -> None:
    assert own_words(library, A100, "590.48.01") == WELL


@pytest.mark.parametrize(
    ("driver", "keys"),
    [
        ("470.256.02", {"banks"}),
        ("535.183.01", {"banks", "sram"}),
        ("570.124.06", {"banks", "sram", "recovery"}),
        ("580.95.05", {"banks", "sram", "recovery", "repairs"}),
    ],
)
def test_an_older_driver_says_less(library: tuple[str, Path], driver: str, keys: set[str]) -> None:
    assert own_words(library, A100, driver) == {**NOTHING, **{key: WELL[key] for key in keys}}


def test_an_older_card_says_less(library: tuple[str, Path]) -> None:
    assert own_words(library, T4, "470.256.02") == NOTHING
    wanted = {**NOTHING, "recovery": 0, "repairs": WELL["repairs"]}
    assert own_words(library, T4, "590.48.01") == wanted


@pytest.mark.parametrize(
    ("line", "value", "key", "expected"),
    [
        ("recovery_action", "4", "recovery", 4),
        ("repairs_pending", "1,0", "repairs", {"channel": True, "tpc": False}),
        ("repairs_pending", "0,1", "repairs", {"channel": False, "tpc": True}),
        ("sram_errors", "5,2,1", "sram", {"exceeded": 1, "parity_ever": 5, "secded_ever": 2}),
        (
            "remap_banks", "5,4,3,2,1", "banks",
            {"max": 5, "high": 4, "partial": 3, "low": 2, "none": 1},
        ),
        ("unrepairable_memory", "1", "unrepairable", 1),
    ],
)  # fmt: skip
def test_a_sick_card_says_it(
    library: tuple[str, Path], line: str, value: str, key: str, expected: object
) -> None:
    assert own_words(library, A100, "590.48.01", **{line: value}) == {**WELL, key: expected}
    # A driver that is asked to say more than it could is a lab's, where faults are made to order.
    assert own_words(library, A100, "470.256.02", **{line: value})[key] == expected


class Silent:
    """A library whose functions succeed and fill in nothing."""

    def ask(self, _name: str, *_: Any) -> bool:
        return True


class Answers:
    """A library that answers a question for a field so."""

    def __init__(self, kind: int, result: int, **value: int) -> None:
        self.kind, self.result, self.value = kind, result, value

    def ask(self, _name: str, *arguments: Any) -> bool:
        field = arguments[-1]._obj
        field.kind, field.result = self.kind, self.result
        for name, value in self.value.items():
            setattr(field.value, name, value)
        return True


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (Answers(1, 0, unsigned=2), 2),
        (Answers(3, 0, large=2), 2),
        (Answers(1, 3, unsigned=2), None),  # a driver that does not know the field
        (Answers(0, 0, unsigned=2), None),  # a floating point number
    ],
)
def test_a_fields_value_counts_where_it_is_said_and_a_number(
    answers: Any, expected: int | None
) -> None:
    assert own_word.recovery(answers, ctypes.c_void_p()) == expected


def test_a_histogram_without_a_bank_is_none() -> None:
    """nvml.h has no error for a card that remaps no rows."""
    silent: Any = Silent()
    assert own_word._banks(silent, ctypes.c_void_p()) is None


def test_facts_of_an_earlier_version_are_judged() -> None:
    facts, older = machine(A100, 1), machine(A100, 1)
    for key in own_word.KEYS:
        del older["nvml"]["gpus"][0][key]
    checks = {check["check"]: check for check in judge.judge(older)["gpus"][0]["checks"]}
    assert checks["recovery"]["state"] == "not applicable"
    assert len(checks["rows"]["evidence"]) == 1
    (now,) = judge.judge(facts)["gpus"]
    assert [check["check"] for check in now["checks"]] == list(checks)


IN_LOG = {
    1: "0x1 (GPU Reset Required)",
    2: "0x2 (Node Reboot Required)",
    3: "0x3 (Drain P2P)",
    4: "0x4 (Drain and Reset)",
}


@pytest.mark.parametrize("number", recovery.ASKED)
def test_what_the_driver_asks_for_is_judged_as_xid_154_is(number: int) -> None:
    """The kernel's log says it in words when it changes: provision/catalog/xids.yml."""
    _words, state, action, _how = recovery.ASKED[number]
    found = xids.verdict(154, f"GPU recovery action changed from 0x0 (None) to {IN_LOG[number]}")
    assert (found.severity, found.action) == (state, action)
