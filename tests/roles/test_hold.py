"""run_lock/hold.py of module_utils: one run at a time, and nothing left of one that was cut off."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collection import PLUGINS, RUN_LOCK

SCRIPT = RUN_LOCK / "hold.py"
MARK = "PROVISION-HOLD "
# As gpu_hold does it, with shorter times and a file of this test's own.
RUN = f"""
import json, sys
namespace = {{"__name__": "hold"}}
request, path, settings = json.loads(sys.argv[1])
exec(compile(open({str(SCRIPT)!r}).read(), "hold.py", "exec"), namespace)
namespace.update(settings)
namespace["main"](request, path)
"""
QUICK = {"INSTANT": 0.3, "TICK": 0.1, "GOODBYE": 0.5, "SILENCE": 60.0, "PATIENCE": 60.0}
ADA = {"who": "ada", "host": "ctrl1", "pid": 4711, "started": "2026-11-21 14:03 UTC"}


class Holder:
    """A holder as the controller sees it: a pipe in, lines out."""

    def __init__(self, path: Path, run: str, **settings: Any) -> None:
        # The dpkg of these tests is a copy of sleep in the test's own directory.
        places = {"PLACES": [str(path.parents[1] / f"{name}-dpkg") for name in ("run1", "run2")]}
        argument = json.dumps([{"run": run, **ADA}, str(path), QUICK | places | settings])
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, argument, "provision: holds this host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith(MARK), line
        answer = json.loads(line[len(MARK) :])
        assert isinstance(answer, dict)
        return answer

    def say(self, word: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """The end of its pipe: what it sees of every end of a run."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


Start = Callable[..., Holder]
Step = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "provision" / "run.lock"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Starts holders; none outlives its test."""
    started: list[Holder] = []

    def make(run: str = "run1", **settings: Any) -> Holder:
        started.append(Holder(path, run, **settings))
        return started[-1]

    yield make
    for holder in started:
        holder.process.kill()
        holder.process.wait()


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    """Starts what a task of a run would: a process with the run's id in its environment."""
    started: list[subprocess.Popen[bytes]] = []

    def make(run: str, name: str = "pip", **more: str) -> subprocess.Popen[bytes]:
        program = tmp_path / f"{run}-{name}" / name
        program.parent.mkdir()
        shutil.copy("/bin/sleep", program)
        process = subprocess.Popen([str(program), "60"], env={"PROVISION_RUN": run, **more})
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()


def is_free(path: Path) -> bool:
    with path.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def test_it_holds_the_host_until_its_run_says_that_it_is_done(start: Start, path: Path) -> None:
    holder = start()
    assert holder.answer() == {"held": holder.process.pid}
    assert json.loads(path.read_text()) == {"run": "run1", "holder": holder.process.pid, **ADA}
    assert path.stat().st_mode & 0o777 == 0o600
    assert not is_free(path)
    holder.say(b"done")
    holder.process.wait(20)
    assert is_free(path)
    assert path.read_text() == ""


def test_a_second_run_is_told_who_is_there(start: Start, path: Path) -> None:
    first = start()
    first.answer()
    second = start("run2")
    assert second.answer()["busy"]["who"] == "ada"
    second.process.wait(20)
    assert not is_free(path)
    first.end()
    third = start("run3")
    assert "held" in third.answer()


def test_a_look_at_the_lock_is_no_reason_to_refuse(start: Start, path: Path) -> None:
    path.parent.mkdir()
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        holder = start(INSTANT=60.0)
        time.sleep(0.5)
    assert "held" in holder.answer()


def test_who_locked_a_file_that_all_could_open_stops_no_run(start: Start, path: Path) -> None:
    """Up to now the file was 0644, and flock needs no more than to read."""
    path.parent.mkdir()
    path.write_text(json.dumps({"holder": os.getpid(), "run": "run0"}))
    path.chmod(0o644)
    with path.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        holder = start()
        assert "held" in holder.answer()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_run_of_an_earlier_version_keeps_its_lock(start: Start, path: Path) -> None:
    first = start()
    first.answer()
    path.chmod(0o644)
    assert start("run2").answer()["busy"]["who"] == "ada"


def test_a_program_that_is_only_called_dpkg_is_ended(start: Start, step: Step, path: Path) -> None:
    """Anybody can name a process dpkg and give it the run's id: the host was held for ever."""
    false = step("run1", "dpkg")
    holder = start(PLACES=["/usr/bin"])
    holder.answer()
    holder.end()
    assert false.wait(20) == -signal.SIGTERM
    assert is_free(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_another_users_process_is_no_step_of_a_run(start: Start, step: Step, path: Path) -> None:
    other = subprocess.Popen(
        ["/bin/sleep", "60"], env={"PROVISION_RUN": "run1"}, user=65534, group=65534
    )
    try:
        ours = step("run1")
        holder = start()
        holder.answer()
        holder.end()
        assert ours.wait(20) == -signal.SIGTERM
        assert is_free(path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_file_that_was_removed_while_it_was_held_is_not_two_locks(
    start: Start, path: Path
) -> None:
    """Somebody tidies up: the next one holds a file of its own, and a third sees that."""
    start().answer()
    path.unlink()
    second = start("run2")
    assert "held" in second.answer()
    assert "busy" in start("run3").answer()


def test_the_last_step_of_a_run_that_was_cut_off_is_ended(
    start: Start, step: Step, path: Path
) -> None:
    ours, others = step("run1"), step("run2")
    holder = start()
    holder.answer()
    holder.end()
    assert ours.wait(20) == -signal.SIGTERM
    assert others.poll() is None
    assert is_free(path)
    assert path.read_text() == ""


def test_a_run_that_is_done_ends_nothing(start: Start, step: Step) -> None:
    """A daemon that a package started is no leftover."""
    daemon = step("run1")
    holder = start()
    holder.answer()
    holder.say(b"done")
    holder.process.wait(20)
    time.sleep(0.3)
    assert daemon.poll() is None


def test_what_was_begun_behind_others_is_ended_with_its_run(start: Start, step: Step) -> None:
    """The run failed before it asked for the result."""
    begun = step("run1", PROVISION_JOB="run1")
    others = step("run2", PROVISION_JOB="run2")
    holder = start()
    holder.answer()
    holder.say(b"done")
    holder.process.wait(20)
    assert begun.wait(20) == -signal.SIGTERM
    assert others.poll() is None


def test_dpkg_is_never_ended_and_the_next_run_waits_for_it(
    start: Start, step: Step, path: Path
) -> None:
    dpkg, around = step("run1", "dpkg"), step("run1", "apt-get")
    first = start()
    first.answer()
    first.end()
    # The connection is let go of, the lock is not.
    wait_for(lambda: "dpkg" in str(json.loads(path.read_text() or "{}").get("finishing")))
    assert not is_free(path)
    second = start("run2")
    waiting = second.answer()["waiting"]
    assert waiting["ended"] is True
    assert f"dpkg (pid {dpkg.pid})" in waiting["finishing"]
    assert dpkg.poll() is None
    assert around.poll() is None
    dpkg.terminate()  # it comes to its end
    dpkg.wait()
    assert around.wait(20) == -signal.SIGTERM
    answer = second.answer()
    while "waiting" in answer:
        answer = second.answer()
    assert "held" in answer
    assert json.loads(path.read_text())["run"] == "run2"


def test_a_run_that_was_cut_off_is_called_so_at_once(start: Start, step: Step, path: Path) -> None:
    """Whoever looks in the next second must not be told that it is at work."""
    dpkg = step("run1", "dpkg")
    holder = start(GOODBYE=60.0)
    holder.answer()
    assert holder.process.stdin is not None
    holder.process.stdin.close()
    wait_for(lambda: "finishing" in path.read_text())
    assert json.loads(path.read_text())["ended"] is True
    assert not is_free(path)
    dpkg.kill()
    dpkg.wait()
    wait_for(lambda: is_free(path))


def test_who_reads_while_it_is_written_finds_one_content_or_the_other(tmp_path: Path) -> None:
    """In a process of its own: threads of one would take turns."""
    namespace: dict[str, Any] = {"__name__": "hold"}
    exec(compile(SCRIPT.read_text(), "hold.py", "exec"), namespace)  # noqa: S102  as gpu_hold does
    path = str(tmp_path / "lock")
    handle = namespace["open_lock"](path)
    contents: list[dict[str, Any]] = [{"run": "a"}, {"run": "b", "finishing": "dpkg " * 50}]
    namespace["write"](handle, contents[0])
    pid = os.fork()
    if not pid:
        for number in range(100_000):
            namespace["write"](handle, contents[number % 2])
            time.sleep(0.0002)
        os._exit(0)
    found = [namespace["read"](path) for _ in range(5000)]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(handle)
    assert [content for content in found if content not in contents] == []


def test_patience_has_an_end(start: Start, step: Step, path: Path) -> None:
    dpkg = step("run1", "dpkg")
    first = start()
    first.answer()
    first.end()
    wait_for(lambda: "finishing" in path.read_text())
    second = start("run2", PATIENCE=0.5)
    assert "waiting" in second.answer()
    assert "dpkg" in second.answer()["busy"]["finishing"]
    dpkg.kill()
    dpkg.wait()
    wait_for(lambda: is_free(path))


def test_what_a_killed_holder_left_is_ended_by_the_next(start: Start, step: Step) -> None:
    left = step("run1")
    first = start()
    first.answer()
    first.process.kill()
    second = start("run2")
    answer = second.answer()
    while "waiting" in answer:  # the step may take a moment to end
        answer = second.answer()
    assert "held" in answer
    assert left.wait(20) == -signal.SIGTERM


def test_a_holder_that_hears_nothing_of_its_run_makes_room(
    start: Start, step: Step, path: Path
) -> None:
    """A controller without power: no end of the pipe ever arrives."""
    left = step("run1")
    first = start(SILENCE=0.3)
    first.answer()
    wait_for(lambda: json.loads(path.read_text() or "{}").get("silent") is True)
    assert left.poll() is None
    second = start("run2")
    assert "held" in second.answer()
    assert first.process.wait(20) == -signal.SIGTERM
    assert left.wait(20) == -signal.SIGTERM


def test_a_sign_of_life_takes_the_silence_back(start: Start, path: Path) -> None:
    first = start(SILENCE=0.5)
    first.answer()
    wait_for(lambda: json.loads(path.read_text() or "{}").get("silent") is True)
    first.say(b"alive")
    wait_for(lambda: not {"silent", "quiet"} & json.loads(path.read_text() or "{}").keys())


def test_some_seconds_without_a_sign_are_called_quiet_before_they_are_silence(
    start: Start, path: Path
) -> None:
    first = start(QUIET=0.3, SILENCE=1.5)
    first.answer()
    wait_for(lambda: json.loads(path.read_text() or "{}").get("quiet") is True)
    assert "silent" not in json.loads(path.read_text())
    wait_for(lambda: json.loads(path.read_text() or "{}").get("silent") is True)
    assert "quiet" not in json.loads(path.read_text())


def test_a_number_in_the_file_that_is_somebody_elses_is_left_alone(
    start: Start, step: Step, path: Path
) -> None:
    stranger = step("no run of ours")
    path.parent.mkdir()
    with path.open("w") as stream:
        path.chmod(0o600)
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(json.dumps({"run": "run1", "silent": True, "holder": stranger.pid}))
        stream.flush()
        assert "busy" in start("run2").answer()
    assert stranger.poll() is None


def test_where_the_lock_cannot_be_written_the_reason_is_reported(start: Start, path: Path) -> None:
    path.parent.write_text("a file where the directory should be")
    assert "run.lock" in start().answer()["failed"]


def test_it_ends_when_its_run_ends_while_it_waits(start: Start, path: Path) -> None:
    path.parent.mkdir()
    with path.open("w") as stream:
        path.chmod(0o600)
        fcntl.flock(stream, fcntl.LOCK_EX)
        holder = start(INSTANT=60.0)
        time.sleep(0.3)
        holder.end()
    assert holder.process.returncode == 0


def test_a_reader_that_went_away_ends_nothing_but_the_words(start: Start, path: Path) -> None:
    holder = start(SILENCE=0.3)
    holder.answer()
    assert holder.process.stdout is not None
    holder.process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        holder.process.wait(0.5)
    assert holder.process.poll() is None
    assert not is_free(path)


def test_its_syntax_is_python_3_7s() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 7))


def test_plugin_and_program_agree_on_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS / "action"))
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu_hold
    import hold

    assert gpu_hold.MARK == hold.MARK
    assert hold.MARK in gpu_hold.BOOTSTRAP
    assert gpu_hold.WAIT_SECONDS > hold.PATIENCE
    # What stands in ps is how the next run knows a holder.
    assert hold.NAME in gpu_hold.NAME
    assert len(gpu_hold.program({"run": "x" * 32, **ADA}, {})) < os.sysconf("SC_PAGE_SIZE") * 16
