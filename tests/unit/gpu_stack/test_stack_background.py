"""Jobs: begun by one module, taken up by a later one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_stack.host import background

GPU_STACK = Path(background.__file__).parents[2]


@pytest.fixture
def job(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "provision" / "job")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def test_a_job_runs_behind_and_its_result_is_waited_for(job: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    background.begin(job, lambda: {"read": gate.read_text("utf-8"), "leader": os.getsid(0)})
    assert not (Path(job) / "result").exists()
    gate.write_text("now", "utf-8")
    result = background.result(job)
    assert result["read"] == "now"
    assert result["leader"] != os.getsid(0)
    assert not Path(job).exists()


def test_a_job_that_is_killed_has_no_result(job: str, tmp_path: Path) -> None:
    number = tmp_path / "pid"

    def work() -> None:
        (tmp_path / "new").write_text(str(os.getpid()), "utf-8")
        (tmp_path / "new").rename(number)
        time.sleep(60)

    background.begin(job, work)
    wait_for(number)
    os.kill(int(number.read_text()), signal.SIGKILL)
    with pytest.raises(background.EndedError, match="killed before it was done"):
        background.result(job)


def test_an_error_of_the_job_is_told_to_who_waits(job: str) -> None:
    def work() -> None:
        raise ValueError("no such archive")

    background.begin(job, work)
    with pytest.raises(background.EndedError, match="no such archive"):
        background.result(job)
    assert not Path(job).exists()


def test_two_at_once_are_refused_and_one_after_the_other_is_not(job: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    background.begin(job, lambda: gate.read_text("utf-8"))
    with pytest.raises(background.BusyError, match="still at work"):
        background.begin(job, lambda: 1)
    gate.write_text("first", "utf-8")
    assert background.result(job) == "first"
    background.begin(job, lambda: 2)
    assert background.result(job) == 2


def test_the_result_of_an_earlier_run_is_not_taken_for_this_ones(job: str) -> None:
    background.begin(job, lambda: 1)
    wait_for(Path(job) / "result")
    deadline = time.monotonic() + 20
    while True:  # its process ends a moment after its result is there
        try:
            background.begin(job, lambda: os.kill(os.getpid(), signal.SIGKILL))
            break
        except background.BusyError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with pytest.raises(background.EndedError):
        background.result(job)


def test_where_nothing_was_begun_there_is_nothing_to_wait_for(job: str) -> None:
    assert background.result(job) is None


def test_only_root_reads_its_files_and_it_has_the_environment_of_its_task(job: str) -> None:
    """The holder of a host finds a job by its environment as the kernel has it."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpu_stack.host import background\n"
        "background.begin(sys.argv[2], lambda: open('/proc/self/environ').read().split(chr(0)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(GPU_STACK), job],
        env={"PROVISION_JOB": "run1"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Path(job).stat().st_mode & 0o777 == 0o700
    assert "PROVISION_JOB=run1" in background.result(job)
