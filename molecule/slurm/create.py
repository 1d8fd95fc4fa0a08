"""A host whose jobs get GPUs: cgroups that Slurm may write, simulated GPUs as device files.

It is controller and node of a cluster of its own. Slurm and munge are Debian's and run for real.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from provision import locallab  # noqa: E402 - this tree's, wherever Molecule is
from tests.hosts.slurm_cluster import bring_up  # noqa: E402


def main() -> None:
    """What create.yml calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--host", action="append", dest="hosts", required=True)
    parser.add_argument("--lab", type=Path, required=True)
    chosen = parser.parse_args()
    owner = os.environ.get("PROVISION_LAB_OWNER")
    locallab.down(chosen.name, state_dir=chosen.project / ".lab")
    bring_up(
        chosen.project,
        chosen.name,
        "debian12",
        chosen.hosts,
        # A machine that is busy with other tests takes longer to start slurmd.
        {"slurm_patience": 180},
        more=chosen.lab,
        keep=not owner,
        owner_pid=int(owner) if owner else None,
    )


if __name__ == "__main__":
    main()
