"""What apt would remove for the lock's versions is known, and refused, before anything is touched.

Installing CUDA removed somebody's own solver, and no plan had said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from converged_host import Host
from gpu_stack.host.context import Result

DRIVER = {
    "branch": "470",
    "version": "470.256.02",
    "packages": {"userspace": {"libcuda1": "470.256.02-2", "nvidia-smi": "470.256.02-2"}},
}
LOCK = {
    **made.LOCK,
    "stacks": {
        "debian11-small": {"nvidia_driver": DRIVER, **made.LOCK["stacks"]["debian11-small"]}
    },
}
OLDER = "11.2.152~11.2.2-1"


class Apt:
    """apt-get --simulate: knows these versions, and answers a transaction with these words."""

    def __init__(self, words: str, unknown: str = "") -> None:
        self.words, self.unknown = words, unknown
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> Result:
        if list(argv[:3]) != ["apt-get", "install", "--simulate"]:
            return Result(127, "", "no such program")
        self.asked.append(list(argv[3:]))
        if self.unknown and any(word.startswith(self.unknown + "=") for word in argv):
            return Result(100, "", f"E: Version for '{self.unknown}' was not found\n")
        return Result(0, self.words, "")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Converged, but for one library of CUDA that is older; a person's package lives on that."""
    host = made.make(tmp_path)
    host.packages["libcudart11.0"]["version"] = OLDER
    host.packages["somebodys-solver"] = {"version": "1.0", "state": "install ok installed"}
    host.write_status()
    status = (host.root / "var/lib/dpkg/status").read_text("utf-8")
    host.write(
        "/var/lib/dpkg/status",
        status.replace(
            "Package: somebodys-solver\n",
            f"Package: somebodys-solver\nDepends: libc6, libcudart11.0 (= {OLDER})\n",
        ),
    )
    return host


def refused(host: Host, apt: Apt, **changed: Any) -> list[tuple[str, str]]:
    host.run = apt  # type: ignore[method-assign, assignment]
    blockers = host.plan(**changed)["blockers"]
    return [
        (blocker["message"], blocker["hint"])
        for blocker in blockers
        if blocker["id"] == "unplanned-removal"
    ]


def test_a_strangers_package_that_would_go_is_named_with_why_and_the_way_out(host: Host) -> None:
    apt = Apt("Remv somebodys-solver [1.0]\nInst libcudart11.0 [1] (2 x [amd64])\n")
    ((message, hint),) = refused(host, apt)
    assert message == (
        "apt would remove packages for the lock's versions: "
        "somebodys-solver 1.0 (needs libcudart11.0)"
    )
    assert "apt-get remove somebodys-solver" in hint
    assert f"libcudart11.0={made.CUDART}" in apt.asked[0]
    assert "-oAPT::Get::AutomaticRemove=false" in apt.asked[0]


def test_a_conflict_is_named_as_why(host: Host) -> None:
    status = (host.root / "var/lib/dpkg/status").read_text("utf-8")
    host.write(
        "/var/lib/dpkg/status",
        status.replace("Depends: libc6, libcudart11.0 (", "Breaks: libcudart11.0 (>> "),
    )
    ((message, _),) = refused(host, Apt("Purg somebodys-solver [1.0]\n"))
    assert message.endswith("somebodys-solver 1.0 (conflicts with libcudart11.0)")


def test_where_nothing_goes_nothing_is_said(host: Host) -> None:
    assert refused(host, Apt("Inst libcudart11.0 [1] (2 x [amd64])\n")) == []


def test_what_apt_cannot_answer_is_left_to_the_roles(host: Host) -> None:
    assert refused(host, Apt("Remv somebodys-solver [1.0]\n", unknown="libcudart11.0")) == []


def test_an_unknown_version_of_one_component_hides_nothing_of_another(host: Host) -> None:
    """On a bare host apt does not know CUDA yet, and may know the driver."""
    apt = Apt("Remv somebodys-solver [1.0]\n", unknown="libcuda1")
    ((message, _),) = refused(host, apt, lock=LOCK)
    assert "somebodys-solver" in message
    assert len(apt.asked) == 3


def test_nothing_is_asked_where_no_package_differs(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    host.remove("/etc/apt/preferences.d/provision-cuda")
    apt = Apt("Remv somebodys-solver [1.0]\n")
    assert refused(host, apt) == []
    assert apt.asked == []


def test_a_held_package_of_somebody_else_is_not_changed(host: Host) -> None:
    host.packages["libxnvctrl0"] = {"version": "1", "state": "hold ok installed"}
    host.write_status()
    ((message, hint),) = refused(host, Apt("Inst libxnvctrl0 [1] (2 x [amd64])\n"))
    assert message == "apt would change packages that somebody holds: libxnvctrl0 1 to 2"
    assert hint.startswith("apt-mark unhold libxnvctrl0")


def test_parts_of_another_driver_go_only_where_the_wish_says_so(host: Host) -> None:
    """`apt install nvidia-driver` of another version: its metapackage can't stay with 470."""
    host.packages["nvidia-driver"] = {"version": "535.183.01-1", "state": "install ok installed"}
    host.write_status()
    apt = Apt("Remv nvidia-driver [535.183.01-1]\n")
    ((message, hint),) = refused(host, apt, lock=LOCK)
    assert message == (
        "parts of another NVIDIA driver cannot stay beside the lock's versions: "
        "nvidia-driver 535.183.01-1"
    )
    assert "nvidia_driver_switch: switch" in hint

    plan = host.plan(lock=LOCK, options={"nvidia_driver_switch": "switch"})
    (change,) = [change for change in plan["changes"] if change["item"] == "nvidia-driver"]
    assert (change["from"], change["to"]) == ("535.183.01-1", None)
    assert [blocker for blocker in plan["blockers"] if blocker["id"] == "unplanned-removal"] == []
