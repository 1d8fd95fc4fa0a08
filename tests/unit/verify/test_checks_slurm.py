"""What the checks of Slurm take for well: a share of the GPUs, and the marks of an ordinary day."""

from __future__ import annotations

from typing import Any

import pytest

from provision.verify.checks import slurm
from provision.verify.checks.check import Seen

OPTIONS = {"slurm_state": "present", "slurm_compute": True}


def seen(state: str = "IDLE", gpus: int = 2, **options: Any) -> Seen:
    node = (
        f"NodeName=gpu01 NodeHostName=gpu01 Gres=gpu:tesla_t4:{gpus} State={state} Partitions=gpu"
    )
    answer = {"rc": 0, "stdout": node + "\n", "stderr": ""}
    probe = {"slurm": {"ping": answer, "nodes": answer, "hostname": "gpu01", "devices": 4}}
    return Seen(row={}, options={**OPTIONS, **options}, probe=probe)


@pytest.mark.parametrize(
    ("share", "gpus", "result"),
    [("all", 4, "passed"), (2, 2, "passed"), ([2, 3], 2, "passed"), ("all", 2, "failed"),
     (2, 4, "failed"), (0, 0, "passed")],
)  # fmt: skip
def test_slurm_gives_out_its_share(share: Any, gpus: int, result: str) -> None:
    assert slurm.slurm_gpus.judge(seen(gpus=gpus, slurm_gpus=share)).result == result


@pytest.mark.parametrize(
    ("state", "result"),
    [("MIXED+PLANNED", "passed"), ("IDLE+DRAIN", "failed"), ("IDLE+INVALID_REG", "failed"),
     ("IDLE+NOT_RESPONDING", "failed"), ("ALLOCATED*", "failed"), ("IDLE+MAINTENANCE", "failed")],
)  # fmt: skip
def test_a_node_takes_jobs_or_not(state: str, result: str) -> None:
    assert slurm.slurm_ready.judge(seen(state)).result == result
