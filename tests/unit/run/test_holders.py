"""The callback's side of the lock: pipes that end with the run, and words that become events."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.provision.gpu.plugins.filter import still_held
from ansible_collections.provision.gpu.plugins.plugin_utils import holders
from ansible_collections.provision.gpu.plugins.plugin_utils.results import message_of

from tests.collection import IMPORTABLE

# Stands for ansible-playbook with a worker that has started a holder; the "host" is this test.
RUN = f"""
import json, os, socket, sys, time
sys.path.insert(0, {str(IMPORTABLE)!r})
from ansible_collections.provision.gpu.plugins.plugin_utils.holders import Holders
def say(*words):  # a line at once: two threads write here
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
holders = Holders(lambda host, message: say(host, json.dumps(message)))
holders.start()
parent, handle = (int(part) for part in os.environ["PROVISION_HOLD"].split(":"))
to_holder, from_holder = int(sys.argv[1]), int(sys.argv[2])
if os.fork() == 0:  # the worker of the task that holds the host
    assert parent == os.getppid()
    with socket.socket(fileno=os.dup(handle)) as here:
        said = {{"host": "gpu01", "rest": sys.argv[3]}}
        socket.send_fds(here, [json.dumps(said).encode()], [to_holder, from_holder])
    os._exit(0)
os.wait()
os.close(to_holder)
os.close(from_holder)
while not holders._pipes:
    time.sleep(0.01)
handles = [one for key, value in holders._pipes.items() for one in (key, value[1])]
busy = os.fork()
if busy == 0:  # a worker of a later task: it has nothing that keeps the host held
    time.sleep(float(sys.argv[4]))
    for one in handles:
        try:
            os.fstat(one)
        except OSError:
            continue
        os._exit(1)
    os._exit(0)
say("ready", busy)
for line in sys.stdin:
    if line.startswith("stop"):
        given_up = {{"gpu01"}} if "gpu01" in line else set()
        holders.stop(finished="finished" in line, given_up=given_up)
        say("stopped", os.waitpid(busy, 0)[1])
    elif line.startswith("reboots"):
        holders.reboots("gpu01")
        say("noted")
    elif line.startswith("lost?"):
        while len(holders._pipes) > int(line.split()[1]):
            time.sleep(0.01)
        say(os.environ[{holders.LOST!r}])
"""


class Run:
    """The run as a process, and the holder's ends of its pipes."""

    def __init__(self, rest: str = "", busy: float = 0.0) -> None:
        self.stdin, to_holder = os.pipe()
        from_holder, self.stdout = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(to_holder), str(from_holder), rest, str(busy)],
            pass_fds=(to_holder, from_holder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(to_holder)
        os.close(from_holder)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hears(self) -> bytes:
        """Everything that the holder is told until the end of its pipe."""
        with open(self.stdin, "rb") as stream:
            return stream.read()


@pytest.fixture
def runs() -> Any:
    started: list[Run] = []

    def make(**options: Any) -> Run:
        started.append(Run(**options))
        return started[-1]

    yield make
    for run in started:
        run.process.kill()
        run.process.communicate()


def test_a_run_that_is_done_says_so_and_lets_go(runs: Any) -> None:
    run = runs()
    assert run.line().startswith("ready")
    run.say("stop finished")
    assert run.hears().endswith(b"done\n")


def test_a_run_that_is_cut_off_only_lets_go(runs: Any) -> None:
    run = runs()
    assert run.line().startswith("ready")
    run.say("stop")
    heard = run.hears()
    assert b"done" not in heard
    assert heard.startswith(b"alive\n")


def test_a_host_that_was_given_up_is_told_that_its_last_step_was_cut_off(runs: Any) -> None:
    """That step may still run there, though the run itself has reached its end."""
    run = runs()
    assert run.line().startswith("ready")
    run.say("stop finished without gpu01")
    assert b"done" not in run.hears()
    assert run.line().startswith("stopped")


@pytest.mark.parametrize(("reboots", "lost"), [(False, '["gpu01"]'), (True, "[]")])
def test_a_host_whose_holder_ends_before_the_run_is_lost(
    runs: Any, reboots: bool, lost: str
) -> None:
    """As where another run has taken its place; not where the run itself reboots the host."""
    run = runs()
    assert run.line().startswith("ready")
    run.say("lost? 1")
    assert run.line() == "[]"
    if reboots:
        run.say("reboots")
        assert run.line() == "noted"
    os.close(run.stdout)
    run.say("lost? 0")
    assert run.line() == lost


def test_a_host_that_is_held_again_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """And neither is one whose old connection ends after that."""
    monkeypatch.setenv(holders.LOST, '["gpu02"]')
    ours = holders.Holders(lambda _host, _message: None)
    ours._lost = {"gpu02"}

    def take() -> tuple[int, int]:
        to_holder, from_holder = os.pipe(), os.pipe()
        said = json.dumps({"host": "gpu02", "rest": ""}).encode()
        socket.send_fds(ours._theirs, [said], [to_holder[1], from_holder[0]])
        with selectors.DefaultSelector() as selector:
            ours._accept(selector)
        return max(ours._pipes), from_holder[1]

    first, its_end = take()
    assert os.environ[holders.LOST] == "[]"
    take()
    os.close(its_end)
    with selectors.DefaultSelector() as selector:
        selector.register(first, selectors.EVENT_READ)
        ours._receive(selector, first)
    assert os.environ[holders.LOST] == "[]"
    assert len(ours._pipes) == 1


def test_no_task_begins_on_a_host_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(holders.LOST, raising=False)
    assert still_held.still_held("an id", "gpu01") == "an id"
    monkeypatch.setenv(holders.LOST, '["gpu02"]')
    assert still_held.still_held("an id", "gpu01") == "an id"
    with pytest.raises(AnsibleFilterError, match="no longer held for this run"):
        still_held.still_held("an id", "gpu02")


@pytest.mark.parametrize("prefix", ["", "Task failed: Error processing keyword 'environment': "
                         "The filter plugin 'provision.gpu.still_held' failed: ",
                         "The filter plugin 'provision.gpu.cache_site' failed: "])  # fmt: skip
def test_of_a_lost_host_the_sentence_alone_is_reported(prefix: str) -> None:
    """So it is of each filter of the collection, whose sentences are for people."""
    assert message_of({"failed": True, "msg": prefix + still_held.MESSAGE}) == still_held.MESSAGE


@pytest.mark.parametrize(
    ("limit", "after"),
    [((1024, 524288), 65536), ((1024, 4096), 4096), ((100_000, 524288), 100_000),
     ((1024, -1), 65536), ((-1, -1), -1)],
)  # fmt: skip
def test_a_run_may_hold_more_hosts_than_the_usual_limit_of_files_allows(
    monkeypatch: pytest.MonkeyPatch, limit: tuple[int, int], after: int
) -> None:
    """Two pipes for each host, and 1024 files: at 500 hosts Ansible could start no worker more."""
    now = [limit]
    monkeypatch.setattr(holders.resource, "getrlimit", lambda _which: now[0])
    monkeypatch.setattr(holders.resource, "setrlimit", lambda _which, to: now.append(to))
    holders._allow_files()
    assert now[-1] == (after, limit[1])


def test_a_killed_run_lets_go_though_a_worker_is_still_busy(runs: Any) -> None:
    run = runs(busy=600.0)
    busy = int(run.line().split()[1])
    run.process.kill()
    ended = threading.Thread(target=run.hears, daemon=True)
    ended.start()
    ended.join(30)  # a copy in that worker would keep the end away for ten minutes
    os.kill(busy, signal.SIGKILL)
    assert not ended.is_alive()


def test_no_later_worker_has_the_pipes(runs: Any) -> None:
    run = runs()
    assert run.line().startswith("ready")
    os.close(run.stdout)
    run.say("stop finished")
    assert run.line() == "stopped 0"


def test_what_a_holder_says_is_reported_with_its_host(runs: Any) -> None:
    run = runs(rest='PROVISION-HOLD {"progress": {"text": "first"}}\nPROVISION-HOLD {"prog')
    os.write(run.stdout, b'ress": {"text": "second"}}\nsudo: a lecture\n\nPROVISION-HOLD [1]\n')
    os.write(run.stdout, b'PROVISION-HOLD {"progress": {"text": "third"}}\n')
    lines = [line for line in (run.line() for _ in range(4)) if not line.startswith("ready")]
    assert lines == [
        f'gpu01 {{"progress": {{"text": "{word}"}}}}' for word in ("first", "second", "third")
    ]
