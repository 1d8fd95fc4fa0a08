"""files/background.sh of roles: begun behind other tasks, taken up as if it ran there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "roles"
SCRIPT = ROLES / "cuda" / "files" / "background.sh"
ENDED = 75


def call(*words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """As the roles call it: the text in the command line, the command's input on its own."""
    return subprocess.run(
        ["/bin/sh", "-c", SCRIPT.read_text("utf-8"), "background", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def job(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "provision" / "job")


def test_it_comes_back_at_once_and_who_waits_gets_all_of_it(job: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = f'read line < {gate}; cat; echo "$line $1"; echo warned >&2; exit 3'
    begun = call("start", job, "/bin/sh", "-c", command, "sh", "a b", stdin="input\n")
    assert (begun.returncode, begun.stdout, begun.stderr) == (0, "", "")
    assert not (Path(job) / "code").exists()
    gate.write_text("now\n")
    found = call("wait", job)
    assert (found.returncode, found.stdout, found.stderr) == (3, "input\nnow a b\n", "warned\n")
    assert not Path(job).exists()


def test_what_was_ended_from_outside_is_no_success(job: str, tmp_path: Path) -> None:
    number = tmp_path / "pid"
    command = f"echo $$ $PPID > {number}.new; mv {number}.new {number}; exec sleep 60"
    assert call("start", job, "/bin/sh", "-c", command).returncode == 0
    deadline = time.monotonic() + 20
    while not number.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    # The command and what waits for it there, as the holder of the host ends both.
    for pid in reversed(number.read_text().split()):
        os.kill(int(pid), signal.SIGTERM)
    found = call("wait", job)
    assert (found.returncode, found.stdout) == (ENDED, "")
    assert "ended before it was done" in found.stderr


def test_a_server_that_drips_does_not_hold_a_run_for_ever() -> None:
    """A connection that says nothing was ended; one that says little had no end.

    What was begun behind other tasks and is ended is fetched in the role's own turn: with the same
    bound, and so is the driver's .run file.
    """
    begin = yaml.safe_load((ROLES / "cuda/tasks/begin_installer.yml").read_text("utf-8"))
    (begun,) = [
        task["ansible.builtin.command"]["argv"]
        for task in begin[-1]["block"]
        if "ansible.builtin.command" in task
    ]
    before, _helper, after = begun.partition("'/usr/lib/apt/apt-helper'")
    assert before.endswith("'timeout', '--kill-after=30', __cuda_longest | string, ")
    assert "'Acquire::http::Timeout=60'" in after
    assert "'Acquire::https::Timeout=60'" in after
    longest = []
    for role, name in (("cuda", "installer_download"), ("nvidia_driver", "runfile_fetch")):
        tasks = yaml.safe_load((ROLES / role / f"tasks/{name}.yml").read_text("utf-8"))
        (fetch,) = [task for task in tasks if "ansible.builtin.get_url" in task]
        assert fetch["timeout"] == f"{{{{ __{role}_longest }}}}"
        longest += [
            yaml.safe_load(path.read_text("utf-8"))[f"__{role}_longest"]
            for path in (ROLES / role / "vars").glob("*.yml")
            if f"\n__{role}_longest:" in path.read_text("utf-8")
        ]
    assert longest == [14400, 14400]


def test_two_at_once_are_refused_and_one_after_the_other_is_not(job: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    assert call("start", job, "/bin/sh", "-c", f"read line < {gate}").returncode == 0
    assert call("start", job, "true").returncode != 0
    gate.write_text("now\n")
    assert call("wait", job).returncode == 0
    assert call("start", job, "false").returncode == 0
    assert call("wait", job).returncode == 1


def test_the_result_of_a_former_run_is_not_taken_for_this_ones(job: str) -> None:
    assert call("start", job, "true").returncode == 0
    while not (Path(job) / "code").exists():
        time.sleep(0.02)
    # Nobody has asked for it; another run begins the same, and is cut off.
    assert call("start", job, "/bin/sh", "-c", "kill -9 $PPID").returncode == 0
    assert call("wait", job).returncode == ENDED


def test_where_nothing_was_begun_there_is_nothing_to_wait_for(job: str) -> None:
    assert call("wait", job).returncode not in (0, ENDED)


def test_it_bears_the_mark_of_its_run_and_only_root_reads_its_files(job: str) -> None:
    call("start", job, "/bin/sh", "-c", "echo $PROVISION_JOB", PROVISION_RUN="run1")
    assert Path(job).stat().st_mode & 0o777 == 0o700
    assert call("wait", job).stdout == "run1\n"
