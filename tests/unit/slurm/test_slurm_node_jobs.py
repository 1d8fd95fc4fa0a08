"""What slurmd calls before and after a job: the prolog and the epilog, over recorded words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import recorded_life as recorded
from gpu_stack.components.slurm.program import gpus, job, words
from gpu_stack.host.processes import DAEMONS
from slurm_node import SETTINGS, Processes, Slurm, away_from_here


@pytest.fixture(autouse=True)
def _no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away_from_here(tmp_path, monkeypatch)


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(gpus, "_device", lambda _path: 1)
    return Processes(tmp_path)


def test_slurms_gpus_are_counted_in_the_order_of_gres_conf() -> None:
    assert job.of_job(recorded.PROLOG, SETTINGS) == ("4", [3])
    assert job.of_job({"SLURM_JOB_ID": "4"}, SETTINGS) == ("4", [])
    assert job.of_job({"SLURM_JOB_GPUS": "0,x,7"}, SETTINGS) == ("", [2])


def test_slurm_20_11_says_the_numbers_of_the_files() -> None:
    """Debian 11's sets no SLURM_JOB_GPUS for a prolog: gres_gpu.c, epilog_set_env."""
    old = {"SLURM_JOB_ID": "4", "CUDA_VISIBLE_DEVICES": "3", "GPU_DEVICE_ORDINAL": "3"}
    assert job.of_job(old, SETTINGS) == ("4", [3])
    # Not one of Slurm's, and what later releases say there.
    assert job.of_job({**old, "CUDA_VISIBLE_DEVICES": "0,GPU-aa"}, SETTINGS) == ("4", [])


def test_a_job_begins_where_its_gpu_is_free(processes: Processes) -> None:
    processes.add(11, 2)  # somebody on another GPU
    processes.add(12, None)
    processes.add(13, 3, "0::/system.slice/slurmstepd.scope/job_4/step_batch/user/task_0\n")
    processes.add(14, 3, comm="nvidia-persiste")
    slurm = Slurm()
    assert job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0) is None
    assert job.prolog({"SLURM_JOB_ID": "4"}, SETTINGS, slurm, settled=0) is None
    assert slurm.updates == []


@pytest.mark.parametrize("name", [*DAEMONS, "Xorg"])
def test_a_login_screen_and_a_daemon_are_in_no_jobs_way(processes: Processes, name: str) -> None:
    """Else each node with a screen refuses each job, and is drained for it."""
    processes.add(14, 3, comm=name)
    assert job.prolog(recorded.PROLOG, SETTINGS, Slurm(), settled=0) is None


def test_a_daemons_name_is_no_excuse_for_a_person(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.add(14, 3, comm="nvidia-persiste")
    monkeypatch.setattr(gpus, "FIRST_PERSON", 0)
    assert job.prolog(recorded.PROLOG, SETTINGS, Slurm(), settled=0)


def test_who_hides_behind_a_process_that_is_not_dumpable_is_no_daemon(
    processes: Processes,
) -> None:
    """/proc/PID is root's then; anybody can ask that of the kernel, and choose the name."""
    processes.add(14, 3, comm="nvidia-persiste", uid=gpus.FIRST_PERSON)
    assert job.prolog(recorded.PROLOG, SETTINGS, Slurm(), settled=0)


def test_a_gpu_in_use_outside_of_the_job_refuses_it(processes: Processes) -> None:
    processes.add(21, 3, "0::/user.slice/user-1001.slice\n")
    processes.add(714, 3)
    slurm = Slurm()
    wrong = job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong is not None
    assert wrong.startswith("in use outside of job 4: pid 21 of ")
    assert "(python train.py) on GPU 3; pid 714 of" in wrong
    assert slurm.updates == [
        ["nodename=gpu01", "state=drain", words.reason(words.PROLOG, wrong).join(["reason=", ""])]
    ]


def test_who_ends_meanwhile_is_in_nobodys_way(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.add(21, 3)
    monkeypatch.setattr(gpus.time, "sleep", lambda _seconds: processes.end(21))
    assert job.prolog(recorded.PROLOG, SETTINGS, Slurm(), settled=60) is None


def test_the_driver_names_who_can_not_be_looked_at(processes: Processes) -> None:
    processes.add(31, None)
    slurm = Slurm()
    slurm.work = "GPU-bb, 31\nGPU-aa, 32\n"
    assert "pid 31 of" in (job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0) or "")


def test_a_gpu_that_does_not_answer_refuses_the_job() -> None:
    slurm = Slurm(smi="2, GPU-aa\n")
    wrong = job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong == "GPU 3 does not answer: No devices"
    assert slurm.updates[0][2] == "reason=provision: prolog: " + wrong


def test_a_driver_that_is_well_is_asked_once_for_all_gpus_of_a_job() -> None:
    """It may take seconds for each, and a prolog has less than a minute."""
    asked: list[list[str]] = []
    slurm = Slurm()

    def call(argv: list[str], patience: float) -> tuple[int, str, str]:
        asked.append(argv)
        return slurm(argv, patience)

    both = {**recorded.PROLOG, "SLURM_JOB_GPUS": "0,1"}
    assert job.prolog(both, SETTINGS, call, settled=0) is None
    assert asked == [gpus.LIST, gpus.WORK]
    hangs = job.prolog(both, SETTINGS, Slurm(smi="hangs"), settled=0)
    assert hangs == "the driver does not answer: nvidia-smi did not answer within 20 s"


def test_an_epilog_names_what_is_left_and_ends_nothing(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "kill", lambda *_words: pytest.fail("a process was ended"))
    processes.add(41, 3, "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n")
    processes.add(42, 3, "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n")
    slurm = Slurm()
    wrong = job.epilog(recorded.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong is not None
    assert wrong.startswith("left by job 4: pid 41 of ")
    assert "42" not in wrong  # another job's, which shares the GPU
    assert slurm.updates[0][2] == "reason=provision: epilog: " + wrong
    processes.add(43, 3)
    assert "in use after job 4" in (job.epilog(recorded.PROLOG, SETTINGS, slurm, settled=0) or "")


def test_an_epilog_of_a_clean_job_says_nothing(processes: Processes) -> None:
    processes.add(41, 2)
    slurm = Slurm()
    assert job.epilog(recorded.PROLOG, SETTINGS, slurm, settled=0) is None
    assert slurm.updates == []


def test_a_file_of_that_name_is_not_the_device(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container of their own anybody has a /dev/nvidia3."""
    processes.add(51, 3)
    monkeypatch.setattr(gpus, "_device", lambda path: path)
    assert gpus.holders([3], Slurm()) == []
