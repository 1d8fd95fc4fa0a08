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


def test_a_host_that_gives_slurm_a_part_is_told_how_many() -> None:
    few = slurm.slurm_gpus.judge(seen(gpus=1, slurm_gpus=2))
    assert few.diagnosis == (
        "Slurm gives out 1 GPUs of this host, which has 4, 2 of them for Slurm (slurm_gpus)"
    )
    few = slurm.slurm_gpus.judge(seen(gpus=1))
    assert few.diagnosis == "Slurm gives out 1 GPUs of this host, which has 4"


def test_a_node_without_gres_gives_out_none() -> None:
    bare = seen()
    bare.probe["slurm"]["nodes"]["stdout"] = "NodeName=gpu01 NodeHostName=gpu01 State=IDLE\n"
    assert slurm.slurm_gpus.judge(bare).diagnosis.startswith("Slurm gives out 0 GPUs of this host")


@pytest.mark.parametrize(
    "state",
    [
        *("IDLE", "MIXED", "ALLOCATED", "COMPLETING"),
        *("MIXED+PLANNED", "ALLOCATED+COMPLETING"),
    ],
)
def test_a_node_at_work_takes_jobs(state: str) -> None:
    verdict = slurm.slurm_ready.judge(seen(state))
    assert (verdict.result, verdict.detail) == ("passed", state.lower())


@pytest.mark.parametrize(
    "state",
    ["DOWN", "DOWN*+DRAIN", "UNKNOWN", "ALLOCATED*", "IDLE*+PLANNED", "MIXED+PLANNED*",
     *(f"IDLE+{mark}" for mark in ("DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG",
       "MAINTENANCE", "POWERED_DOWN", "UNKNOWN"))],
)  # fmt: skip
def test_a_node_that_is_away_takes_none(state: str) -> None:
    verdict = slurm.slurm_ready.judge(seen(state))
    assert verdict.diagnosis == f"the node is {state.lower()}: nobody said why"


def test_the_hosts_own_line_counts() -> None:
    other = "NodeName=gpu00 NodeHostName=gpu00 Gres=gpu:tesla_t4:1 State=DOWN\n"
    mine = seen(gpus=4)
    mine.probe["slurm"]["nodes"]["stdout"] = other + mine.probe["slurm"]["nodes"]["stdout"]
    assert slurm.slurm_ready.judge(mine).result == "passed"
    assert slurm.slurm_gpus.judge(mine).result == "passed"


def test_a_host_without_jobs_is_no_fault() -> None:
    elsewhere = seen(slurm_compute=False)
    assert slurm.slurm_ready.judge(elsewhere).result == "passed"  # slurmctld has it as a node
    elsewhere.probe["slurm"]["hostname"] = "login01"
    verdict = slurm.slurm_ready.judge(elsewhere)
    assert (verdict.result, verdict.detail) == ("not_applicable", "no jobs run on this host")
    verdict = slurm.slurm_gpus.judge(elsewhere)
    assert (verdict.result, verdict.detail) == ("not_applicable", "this host is no node")


@pytest.mark.parametrize(
    ("ping", "words"),
    [
        ({"rc": 1, "stdout": "Slurmctld(primary) at a is UP\n", "stderr": ""}, "at a is UP"),
        ({"rc": 1, "stdout": "", "stderr": "first\nlast\n"}, "slurmctld does not answer: last"),
        ({"rc": 1, "stdout": "", "stderr": ""}, "slurmctld does not answer: no words"),
    ],
)
def test_the_last_word_of_a_ping_is_shown(ping: dict[str, Any], words: str) -> None:
    asked = seen()
    asked.probe["slurm"]["ping"] = ping
    verdict = slurm.slurm_answers.judge(asked)
    assert verdict.result == "failed"
    assert verdict.diagnosis.endswith(words)
