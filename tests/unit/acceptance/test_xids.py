"""What an Xid says about the card."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance import kernel_log, xids

from tests.unit.acceptance.machines import again, event, programs_at_fault
from tests.unit.acceptance.test_kernel_log import journal


@pytest.mark.parametrize(
    ("number", "own", "expected"),
    [
        (79, "GPU has fallen off the bus.", ("GPU has fallen off the bus", "failed", "reboot")),
        (31, "Ch 00000010", ("GPU memory page fault", "user", "nothing")),
        (149, "NETIR_INT Fatal XC0", ("NVLINK: NETIR Error", "failed", "reset")),
        (149, "NETIR_INT Nonfatal XC0", ("NVLINK: NETIR Error", "degraded", "watch")),
        (149, "", ("NVLINK: NETIR Error", "failed", "reset")),
        (999, "Nonfatal", ("not in the catalog", "degraded", "watch")),
    ],
)
def test_the_verdict_of_an_xid(number: int, own: str, expected: tuple[str, str, str]) -> None:
    assert xids.verdict(number, own) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("0x0 (None)", "0x2 (Node Reboot Required)", ("failed", "reboot")),
        ("0x2 (Node Reboot Required)", "0x0 (None)", ("user", "nothing")),
        ("0x0 (None)", "0x1 (GPU Reset Required)", ("failed", "reset")),
        ("0x0 (None)", "0x3 (Drain P2P)", ("degraded", "watch")),
        ("0x3 (Drain P2P)", "0x4 (Drain and Reset)", ("degraded", "reset")),
        ("0x0 (None)", "0x9 (Something new)", ("failed", "reset")),
    ],
)
def test_xid_154_says_what_is_to_be_done_now(
    before: str, after: str, expected: tuple[str, str]
) -> None:
    own = f"GPU recovery action changed from {before} to {after}"
    assert xids.verdict(154, own)[1:] == expected


# what repeats


GRAPHICS, FAULT = "Graphics Engine Exception", "GPU memory page fault"
ON_ONE_TPC = again(0, 13, 3, part="GPC 1, TPC 3")


def test_what_several_programs_have_on_one_part_points_to_the_card() -> None:
    assert xids.repeated(13, ON_ONE_TPC) == (GRAPHICS, "degraded", "watch", "GPC 1, TPC 3", 3, 3, 3)
    assert xids.repeated(31, again(0, 31, 4)) == (FAULT, "degraded", "watch", "", 4, 4, 3)
    two = [event(0, 31, 3600.0 * hour, pid=min(hour, 1)) for hour in range(3)]
    assert xids.repeated(31, two) == (FAULT, "degraded", "watch", "", 3, 2, 3)


@pytest.mark.parametrize("name", programs_at_fault())
def test_programs_at_fault_point_to_no_card_by_themselves(name: str) -> None:
    events = programs_at_fault()[name]
    cards = [
        [event for event in events if event["pci"] == card] for card in {e["pci"] for e in events}
    ]
    found = [xids.repeated(number, card) for card in cards for number in (13, 31, 43, 45)]
    # Which card has how many is known to the check alone, which sees them all.
    assert any(found) is (name == "a program that is wrong on each card")


def test_other_numbers_between_change_nothing() -> None:
    events = sorted(
        [*ON_ONE_TPC, *again(0, 45, 9), *again(0, 31, 2)], key=lambda event: event["time"]
    )
    assert xids.repeated(13, events) == xids.repeated(13, ON_ONE_TPC)
    assert xids.repeated(31, events) is None
    assert xids.repeated(999, events) is None


def test_the_part_with_enough_is_found_among_others() -> None:
    seldom = event(0, 13, 9e5, pid=1, part="GPC 0, TPC 0")
    often = event(0, 13, 9e6, pid=1, part="GPC 2, TPC 0")
    incident = xids.repeated(13, [*ON_ONE_TPC, seldom, often])
    assert incident is not None
    assert incident.part == "GPC 1, TPC 3"


@pytest.mark.parametrize(("silence", "counted"), [(180.0, None), (180.1, 9)])
def test_an_incident_ends_with_three_minutes_of_silence(
    silence: float, counted: int | None
) -> None:
    """Counted from its last message, not from its first."""
    events = [event(0, 31, silence * place, pid=place) for place in range(9)]
    incident = xids.repeated(31, events)
    assert (incident and incident.times) == counted


@pytest.mark.parametrize(("hours", "counted"), [(12.0, 3), (12.003, None)])
def test_what_came_within_a_day_counts_together(hours: float, counted: int | None) -> None:
    """A log has months: who crashes a program now and then is not the card's fault."""
    events = [event(0, 31, 3600 * hours * place, pid=place) for place in range(9)]
    incident = xids.repeated(31, events)
    assert (incident and incident.times) == counted


def test_the_day_with_the_most_is_reported() -> None:
    days = [event(0, 31, 9e6 + 3600.0 * hour, pid=hour) for hour in range(5)]
    incident = xids.repeated(31, [event(0, 31, 0, pid=99), *again(0, 31, 3), *days])
    assert (incident and (incident.times, incident.processes)) == (5, 5)


def test_without_the_names_of_processes_each_incident_is_anothers() -> None:
    """An error of this kind ends what a process can do with the GPU."""
    events = [event(0, 31, 3600.0 * hour) for hour in range(3)]
    assert xids.repeated(31, events) == (FAULT, "degraded", "watch", "", 3, 3, 3)
    incidents = [event(0, 31, 3600.0 * hour, pid=None if hour else 7) for hour in range(3)]
    assert xids.repeated(31, incidents) == (FAULT, "degraded", "watch", "", 3, 3, 3)
    # Some of an incident's messages name the process, and some do not.
    same = [event(0, 31, 3600.0 * hour + s, pid=s or None) for hour in range(3) for s in (0, 7)]
    assert xids.repeated(31, same) is None


def test_a_faulty_part_is_found_in_a_kernels_log() -> None:
    """As drivers 390, 535 and 550 write it."""
    warp = "Graphics SM Warp Exception on (GPC 7, TPC 7{}): Illegal Instruction Parameter"
    texts = [
        warp.format(""),
        "pid='<unknown>', name=<unknown>, " + warp.format(", SM 0"),
        "pid=71, name=(GPC 0, TPC 0), " + warp.format(", SM 1"),
    ]
    lines = [journal(f"NVRM: Xid (PCI:0000:cb:00): 13, {text}") for text in texts]
    lines = [line.replace("1764112483", str(1764112483 + 999 * n)) for n, line in enumerate(lines)]
    facts: list[dict[str, Any]] = [xid._asdict() for xid in kernel_log.xids("".join(lines))]
    assert [fact["pid"] for fact in facts] == [None, None, 71]
    assert xids.repeated(13, facts) == (GRAPHICS, "degraded", "watch", "GPC 7, TPC 7", 3, 3, 3)
