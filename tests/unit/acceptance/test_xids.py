"""What an Xid says about the card."""

from __future__ import annotations

import pytest
from gpu_stack.acceptance import xids


@pytest.mark.parametrize(
    ("number", "told", "expected"),
    [
        (79, "GPU has fallen off the bus.", ("GPU has fallen off the bus", "failed", "reboot")),
        (31, "Ch 00000010", ("GPU memory page fault", "user", "nothing")),
        (149, "NETIR_INT Fatal XC0", ("NVLINK: NETIR Error", "failed", "reset")),
        (149, "NETIR_INT Nonfatal XC0", ("NVLINK: NETIR Error", "degraded", "watch")),
        (149, "", ("NVLINK: NETIR Error", "failed", "reset")),
        (999, "Nonfatal", ("not in the catalog", "degraded", "watch")),
    ],
)
def test_the_verdict_of_an_xid(number: int, told: str, expected: tuple[str, str, str]) -> None:
    assert xids.verdict(number, told) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("0x0 (None)", "0x2 (Node Reboot Required)", ("failed", "reboot")),
        ("0x2 (Node Reboot Required)", "0x0 (None)", ("user", "nothing")),
        ("0x0 (None)", "0x1 (GPU Reset Required)", ("failed", "reset")),
        ("0x0 (None)", "0x3 (Drain P2P)", ("degraded", "watch")),
        ("0x3 (Drain P2P)", "0x4 (Drain and Reset)", ("failed", "reset")),
        ("0x0 (None)", "0x9 (Something new)", ("failed", "reset")),
    ],
)
def test_xid_154_says_what_is_to_be_done_now(
    before: str, after: str, expected: tuple[str, str]
) -> None:
    told = f"GPU recovery action changed from {before} to {after}"
    assert xids.verdict(154, told)[1:] == expected
