"""A host whose jobs get GPUs: cgroups that Slurm may write, simulated GPUs as device files.

It is controller and node of a cluster of its own. Slurm and munge are Debian's and run for real.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from creating import asked

from tests.hosts.slurm_cluster import bring_up


def main() -> None:
    """What create.yml calls."""
    lab = asked(__doc__)
    bring_up(
        lab.project,
        lab.name,
        "debian12",
        lab.hosts,
        # A machine that is busy with other tests takes longer to start slurmd.
        {"slurm_patience": 180},
        more=lab.more,
        keep=lab.keep,
        owner_pid=lab.owner_pid,
    )


if __name__ == "__main__":
    main()
