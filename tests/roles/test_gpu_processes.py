"""The role nvidia_driver lists the processes that hold a GPU's device file."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
import yaml

TASKS = Path(__file__).parents[2] / "roles/nvidia_driver/tasks/people/processes.yml"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "proc"


def start(proc: Path, pid: int, comm: str, words: bytes, opened: str) -> Path:
    process = proc / str(pid)
    (process / "fd").mkdir(parents=True)
    (process / "fd/3").symlink_to(opened)
    (process / "comm").write_text(comm + "\n")
    (process / "cmdline").write_bytes(words)
    return process


def listed(proc: Path) -> list[str]:
    """Lines of the role's program, whose /proc is this folder."""
    program = yaml.safe_load(TASKS.read_text())[0]["ansible.builtin.shell"]
    program = program.replace("/proc/", f"{proc}/")
    answer = subprocess.run(
        ["sh", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert not answer.stderr
    return answer.stdout.splitlines()


def me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def test_whoever_holds_a_device_file_is_listed_but_for_daemons(proc: Path) -> None:
    start(proc, 7, "python3", b"python3\0train.py\0", "/dev/nvidia0")
    start(proc, 8, "python3", b"python3\0other.py\0", "/dev/null")
    for pid, comm in enumerate(
        ["nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi"], 9
    ):
        start(proc, pid, comm, b"x\0", "/dev/nvidiactl")
    assert listed(proc) == [f"pid 7 of {me()}: python3 train.py "]


def test_the_words_of_a_process_stay_on_its_line(proc: Path) -> None:
    start(proc, 7, "python3", b"python3\0-c\0a\npid 1 of root: \x1b[2Jinit\0", "/dev/nvidia0")
    assert listed(proc) == [f"pid 7 of {me()}: python3 -c a?pid 1 of root: ?[2Jinit "]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to somebody else")
def test_a_user_without_an_account_has_a_number(proc: Path) -> None:
    process = start(proc, 7, "python3", b"python3\0", "/dev/nvidia0")
    os.chown(process, 54321, -1)
    assert listed(proc) == ["pid 7 of 54321: python3 "]
