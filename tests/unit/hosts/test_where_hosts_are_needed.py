"""What needs hosts is in one folder: `make hosts` looks nowhere else, `make unit` not in there."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def test_no_test_elsewhere_is_marked_for_hosts() -> None:
    mark = "mark." + "hosts"
    elsewhere = [path for path in TESTS.rglob("*.py") if not path.is_relative_to(TESTS / "hosts")]
    assert len(elsewhere) > 200
    assert [path for path in elsewhere if mark in path.read_text("utf-8")] == []
