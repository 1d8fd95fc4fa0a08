"""Whose hold stops the driver: one of a package whose version is locked, at another version."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.roles.test_platforms import templated

TASKS = Path(__file__).parents[2] / "roles/nvidia_driver/tasks/present/held.yml"
WANTED = {"nvidia-smi": "470.256.02-1", "libcuda1": "470.256.02-1"}


def held(*lines: str) -> list[str]:
    """The holds that stop the run, by what dpkg-query prints."""
    _look, stop = yaml.safe_load(TASKS.read_text("utf-8"))
    found: list[str] = templated(
        stop["vars"]["__nvidia_driver_held"],
        __nvidia_driver_wanted=WANTED,
        __nvidia_driver_installed={"stdout_lines": list(lines)},
    )
    return found


@pytest.mark.parametrize(
    "name", ["dkms", "linux-headers-generic", "linux-image-generic", "nvidia-smi-tools"]
)
def test_a_held_package_that_has_no_locked_version_stops_nothing(name: str) -> None:
    assert held(f"hi |{name}=5.15.0.91.88") == []


def test_a_locked_package_that_is_held_at_another_version_stops_the_run() -> None:
    lines = ["hi |nvidia-smi=535.1-1", "hi |libcuda1=470.256.02-1", "hi |dkms=2.8.4-3"]
    assert held(*lines) == ["nvidia-smi=535.1-1"]


def test_a_package_of_another_version_that_nobody_holds_stops_nothing() -> None:
    assert held("ii |nvidia-smi=535.1-1", "un |libcuda1=") == []
