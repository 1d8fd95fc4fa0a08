"""The commands of the Makefile, as `make --dry-run` prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _pytest_commands(target: str) -> list[str]:
    done = subprocess.run(
        ["make", "--dry-run", target],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if "-m pytest " in line]


@pytest.mark.parametrize(("target", "count"), [("test", 3), ("test-all", 4)])
def test_no_command_collects_the_tests_on_hosts_with_the_others(target: str, count: int) -> None:
    """Files of one name in both would end the collection with an error, before any test."""
    commands = _pytest_commands(target)
    assert len(commands) == count
    for command in commands:
        assert " tests/hosts" in command, f"neither run nor ignored: {command}"
