"""Molecule's scenarios, as `molecule test` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scenario", ["default", "reject"])
def test_scenario(scenario: str, tmp_path: Path) -> None:
    """The whole sequence passes, destroy included."""
    molecule = Path(sys.executable).parent / "molecule"
    # Molecule's own files go to a directory of this run; its hosts to this process.
    environment = os.environ | {
        "PROVISION_LAB_OWNER": str(os.getpid()),
        "NO_COLOR": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(tmp_path),
        "PATH": f"{molecule.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [str(molecule), "test", "-s", scenario],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=2400,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-40000:]
