"""Room on the disk: TensorFlow's environments, NVIDIA's own packages and the `.run` file."""

from __future__ import annotations

from typing import Any

import converged_host as made
import pytest
from gpu_stack import room
from gpu_stack.components import tensorflow

GIB = 1 << 30
OWN = made.LOCK["stacks"]["debian11-small"]["tensorflow"]
OTHER = {**OWN, "version": "2.14.1", "cuda_source": "wheels"}
CHANGES = [{"component": "cuda"}, {"component": "receipt"}, {"component": "tensorflow"}]
MISSING = {"marker": None}
FINISHED = {
    "marker": {
        "format": 1, "version": "2.14.1", "requirements_sha256": made.REQUIREMENTS, "python": "3.9"
    }
}  # fmt: skip
# With CUDA among its wheels: 9.5 GiB.
ROOM = 19 * GIB // 2


def full(
    free: int,
    *,
    own: str | None = "2.9.3",
    beside: Any = MISSING,
    part: Any = None,
    venvs: Any = None,
) -> list[Any]:
    """What a disk with this much room says of the current environment and one beside it."""
    seen = {
        "platform": {"distribution": "debian", "release": "12"},
        "preflight": {"disk": {"/opt/tensorflow": {"free": free, "device": 1}}, "venvs": venvs},
        "state": {
            "cuda": {"version": "11.8.0"},
            "tensorflow": {"version": own, "beside": {tensorflow.directory(OTHER): beside}},
        },
    }
    row = {"beside": [OTHER]} | ({"tensorflow": part} if part else {})
    found: list[Any] = room.disk_full(seen, CHANGES, {}, row)
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


BUILT = [("new", True), ("anew", True), ("changed", False), ("removed", False)]


@pytest.mark.parametrize(("kind", "needs"), BUILT)
def test_an_environment_built_beside_the_one_in_use_needs_its_room(kind: str, needs: bool) -> None:
    """One that is only changed in its place does not; what happens to another is no matter."""
    current, other = tensorflow.directory(OWN), tensorflow.directory(OTHER)
    small = 5 * GIB // 2
    venvs = {current: {"kind": kind}, "2.4.0-x": {"kind": "new"}}
    found = full(small - 1, beside=FINISHED, part=OWN, venvs=venvs)
    assert [("(tensorflow in" in message) for message, _hint in found] == [True] * needs
    assert full(small, beside=FINISHED, part=OWN, venvs=venvs) == []
    venvs = {other: {"kind": kind}}
    found = full(ROOM - 1, beside=FINISHED, part=OWN, venvs=venvs)
    assert [("(tensorflow 2.14.1 in" in message) for message, _hint in found] == [True] * needs
    assert full(ROOM, beside=FINISHED, part=OWN, venvs=venvs) == []


INSTALLER = {"/var/cache/provision": 7 * GIB // 2, "/var": 7 * GIB // 2}
BY_WAY: list[tuple[str, dict[str, Any], str, dict[str, int]]] = [
    ("cuda", {"source": "network"}, "", {"/usr": 7 * GIB, "/var/cache/apt": 7 * GIB // 2}),
    ("cuda", {"source": "network"}, "runtime", {"/usr": 3 * GIB, "/var/cache/apt": 3 * GIB // 2}),
    ("cuda", {"source": "local"}, "", {"/usr": 7 * GIB, **INSTALLER}),
    ("cuda", {"source": "local"}, "runtime", {"/usr": 3 * GIB, **INSTALLER}),
    (
        "nvidia_driver",
        {"source": "runfile"},
        "",
        {"/usr": GIB, "/var/tmp": 3 * GIB // 2, "/var/lib/dkms": GIB // 4},
    ),
]


@pytest.mark.parametrize(("component", "part", "profile", "needs"), BY_WAY)
def test_nvidias_own_ways_need_their_room_to_the_byte(
    component: str, part: dict[str, Any], profile: str, needs: dict[str, int]
) -> None:
    def reasons(disks: dict[str, int], **options: str) -> list[Any]:
        spaces = {path: {"free": free, "device": path} for path, free in disks.items()}
        seen = {
            # A platform whose own CUDA needs less.
            "platform": {"distribution": "debian", "release": "11"},
            "preflight": {"disk": spaces},
            "state": {component: {"version": None}},
        }
        options = {"cuda_profile": profile, **options}
        change = [{"component": component}]
        found: list[Any] = room.disk_full(seen, change, options, {component: part})
        return found

    places = ("/usr", "/var", "/var/tmp", "/var/cache/apt", "/var/lib/dkms", "/var/cache/provision")
    enough = {place: needs.get(place, 0) for place in places}
    assert reasons(enough) == []
    for place in needs:
        ((message, _hint),) = reasons({**enough, place: needs[place] - 1})
        assert f"({component} in {place})" in message
    if part["source"] == "local":
        moved = {**enough, "/var/cache/provision": 0, "/big": 7 * GIB // 2}
        assert reasons(moved, cuda_installer_directory="/big") == []
