"""Room on the disk for environments of TensorFlow, with their own CUDA and beside each other."""

from __future__ import annotations

from typing import Any

import converged_host as made
import pytest
from gpu_stack import preflight, tensorflow

GIB = 1 << 30
OWN = made.LOCK["stacks"]["debian11-small"]["tensorflow"]
OTHER = {**OWN, "version": "2.14.1", "cuda_source": "wheels"}
CHANGES = [{"component": "cuda"}, {"component": "receipt"}, {"component": "tensorflow"}]
MISSING = {"marker": None}
FINISHED = {
    "marker": {
        "version": "2.14.1", "requirements_sha256": made.REQUIREMENTS, "python": "3.9"
    }
}  # fmt: skip
# With CUDA among its wheels: 9.5 GiB.
ROOM = 19 * GIB // 2


def full(
    free: int, *, own: str | None = "2.9.3", beside: Any = MISSING, part: Any = None
) -> list[Any]:
    """What a disk with this much room says of the current environment and one beside it."""
    seen = {
        "platform": {"distribution": "debian", "release": "12"},
        "preflight": {"disk": {"/opt/tensorflow": {"free": free, "device": 1}}},
        "state": {
            "cuda": {"version": "11.8.0"},
            "tensorflow": {"version": own, "beside": {tensorflow.directory(OTHER): beside}},
        },
    }
    row = {"beside": [OTHER]} | ({"tensorflow": part} if part else {})
    found: list[Any] = preflight.disk_full(seen, CHANGES, {}, row)
    return found


@pytest.mark.parametrize(("free", "fits"), [(ROOM - 1, False), (ROOM, True)])
def test_the_disk_must_hold_what_is_missing(free: int, fits: bool) -> None:
    found = full(free)
    assert (found == []) is fits
    if not fits:
        assert "(tensorflow 2.14.1 in /opt/tensorflow)" in found[0][0]


def test_what_is_there_needs_no_room() -> None:
    assert full(0, beside=FINISHED) == []


@pytest.mark.parametrize(("free", "fits"), [(ROOM - 1, False), (ROOM, True)])
def test_the_current_one_may_bring_its_cuda_too(free: int, fits: bool) -> None:
    assert (full(free, own=None, beside=FINISHED, part=OTHER) == []) is fits


def test_all_that_is_missing_is_added_up() -> None:
    ((message, _hint),) = full(12 * GIB - 1, own=None, part=OWN)
    assert "(tensorflow in /opt/tensorflow, tensorflow 2.14.1 in /opt/tensorflow)" in message
    assert full(12 * GIB, own=None, part=OWN) == []
