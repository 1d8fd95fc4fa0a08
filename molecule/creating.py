"""What create.yml asks of a scenario's own create.py, as of scripts/demo.py."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from provision import locallab  # noqa: E402 - this tree's, wherever Molecule is


def _owner() -> int | None:
    """The process whose end is the end of the hosts too; None where they stay until destroy."""
    owner = os.environ.get("PROVISION_LAB_OWNER")
    return int(owner) if owner else None


@dataclass(frozen=True)
class Asked:
    """A lab to make: its name and hosts, the project for it, further files of the inventory."""

    project: Path
    name: str
    hosts: list[str]
    more: Path
    owner_pid: int | None = field(default_factory=_owner)

    @property
    def keep(self) -> bool:
        return self.owner_pid is None


def asked(description: str | None) -> Asked:
    """What the command line asks for; a lab of before is gone then."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--host", action="append", dest="hosts", required=True)
    parser.add_argument("--lab", type=Path, required=True)
    chosen = parser.parse_args()
    locallab.down(chosen.name, state_dir=chosen.project / ".lab")
    return Asked(chosen.project, chosen.name, chosen.hosts, chosen.lab)
