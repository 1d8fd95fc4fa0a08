"""The collection passes Ansible's own tests of collections."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IGNORED = ROOT / "tests" / "sanity" / "ignore.txt"


@pytest.mark.slow
def test_ansible_test_sanity_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "sanity.py"), "--color", "no"],
        capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_ignored_finding_has_its_reason() -> None:
    for line in IGNORED.read_text("utf-8").splitlines():
        path, _, reason = line.partition(" # ")
        assert reason, line
        assert (ROOT / path.split()[0]).exists(), line
