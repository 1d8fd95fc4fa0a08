"""Programs that a look asks: what they wrote and how they ended, whatever the host's Python has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_stack.host.context import run_program

MODULE_UTILS = Path(__file__).parents[3] / "plugins" / "module_utils"


@pytest.fixture(params=["memory", "pipes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of hearing a program; Python 3.7 has only the second."""
    if request.param == "pipes":
        monkeypatch.delattr(os, "posix_spawn")


@pytest.mark.usefixtures("way")
def test_both_outputs_and_the_exit_code_are_reported() -> None:
    script = "echo out; echo wrong >&2; exit 3"
    assert run_program(["/bin/sh", "-c", script]) == (3, "out\n", "wrong\n")


@pytest.mark.usefixtures("way")
def test_no_output_is_too_long() -> None:
    result = run_program(
        ["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x | tee /dev/stderr"]
    )
    assert (result.rc, len(result.out), len(result.err)) == (0, 300000, 300000)


@pytest.mark.usefixtures("way")
def test_a_program_is_found_and_gets_the_fixed_environment_and_no_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", "/nonexistent")
    result = run_program(["sh", "-c", 'echo "$LC_ALL $LANG $PATH"; cat'])
    assert result.out == "C  /usr/sbin:/usr/bin:/sbin:/bin\n"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["no-such-program", "/no/such/program"])
def test_no_such_program_is_127(name: str) -> None:
    assert run_program([name]).rc == 127


@pytest.mark.usefixtures("way")
def test_a_program_that_was_killed_is_no_success() -> None:
    assert run_program(["/bin/sh", "-c", "kill -9 $$"]).rc == -9


@pytest.mark.usefixtures("way")
def test_a_program_that_hangs_is_given_up_with_what_it_started(tmp_path: Path) -> None:
    """nvidia-smi on a hung driver held plan, run and doctor for ever."""
    note = tmp_path / "pid"
    script = f"trap '' TERM; sleep 600 & echo $! > {note}; echo before; wait"
    result = run_program(["/bin/sh", "-c", script], patience=1.0)
    assert (result.rc, result.err) == (124, "/bin/sh did not answer within 1 s")
    child = Path("/proc") / note.read_text().strip() / "stat"
    for _ in range(100):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        raise AssertionError("what it has started still runs")


@pytest.mark.usefixtures("way")
def test_a_program_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """In state D even SIGKILL waits; here nobody sends it."""
    killed: list[int] = []
    monkeypatch.setattr("gpu_stack.host.context._kill", killed.append)
    monkeypatch.setattr("gpu_stack.host.regular.signal.SIGKILL", 0)
    result = run_program(["/bin/sleep", "600"], patience=0.2)
    monkeypatch.undo()
    assert result.rc == 124
    os.kill(killed[0], signal.SIGKILL)
    os.waitpid(killed[0], 0)


@pytest.mark.usefixtures("way")
def test_a_program_gets_the_signals_that_we_had() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    result = run_program(["/bin/grep", "^SigBlk", "/proc/self/status"])
    assert result.out.split()[1] == "0" * 16
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_converged_host_reads_no_preflight() -> None:
    """Its rules are a quarter of the look's source, and are for hosts where work is to be done."""
    script = (
        "import sys, gpu_stack.look; print('subprocess' in sys.modules, "
        "'gpu_stack.preflight' in sys.modules)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-IS",
            "-c",
            f"import sys; sys.path.insert(0, {str(MODULE_UTILS)!r}); " + script,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False False\n"
