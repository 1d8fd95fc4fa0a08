"""Two runs on one host: the second says who is at work, and touches nothing.

And what held the host dies with its run, however that ends: nobody has to remove a lock by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.filter.still_held import MESSAGE
from conftest import NEWEST, Project
from fault_run import kill_tree

# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("run-in-progress",)
HOST = "bare1"
TAGS = ("--tags", "nvidia_driver")
# The driver's role installs something there, for long enough to be met by another run.
AT_WORK = "nvidia_driver : present | lists | Fetch the package lists"
FIRST_OF_GPU_ENV = "gpu_env : present | Write the environment of shells, units and the loader"


def events(project: Path) -> list[dict[str, Any]]:
    path = project / "report" / "latest" / "events.jsonl"
    if not path.exists():
        return []
    found = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):  # the last may be half written
            found.append(json.loads(line))
    return found


def another(project: Project, name: str) -> Project:
    """Somebody else's project for the same hosts."""
    other = Project(project.path.with_name(name), project.lab)
    shutil.copytree(project.path, other.path, symlinks=True, ignore=shutil.ignore_patterns(".lab"))
    return other


def begin(project: Project, *options: str) -> subprocess.Popen[str]:
    """A run that goes on beside the test."""
    return subprocess.Popen(
        [str(NEWEST), "site.yml", "-i", "lab", *options],
        cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for(first: subprocess.Popen[str], project: Path, task: str) -> None:
    deadline = time.monotonic() + 600
    while not any(e["event"] == "host_start" and e["task"] == task for e in events(project)):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline, "the first run never came to its work"
        time.sleep(0.1)


def test_the_second_run_says_who_is_at_work_and_touches_nothing(bare: Project) -> None:
    other = another(bare, "other")
    first = begin(bare, *TAGS)
    try:
        wait_for(first, bare.path, AT_WORK)
        second = other.provision("apply", "-i", "lab", *TAGS)
        assert first.poll() is None, "the first run was over before the second: nothing was shown"
    finally:
        # As a controller whose power is gone.
        assert kill_tree(first.pid), "it had no workers"
        first.communicate()

    output = " ".join((second.stdout + second.stderr).split())
    assert second.returncode == 4, output
    assert "another run is at work on this host" in output
    assert f"(pid {first.pid})" in output
    entry = other.entry(HOST)
    assert entry["status"] == "blocked"
    assert [blocker["id"] for blocker in entry["blockers"]] == ["run-in-progress"]
    # It has looked, and said no.
    assert len(other.tasks_run()[HOST]) == 2, other.tasks_run()
    assert not [event for event in events(other.path) if event.get("status") == "changed"]

    # The first is dead, and nobody has removed anything: the next run goes on with its work.
    third = other.provision("apply", "-i", "lab", *TAGS)
    assert third.returncode == 0, third.stdout + third.stderr
    entry = other.entry(HOST)
    assert "nvidia_driver" in entry["components"]
    assert "nvidia_driver" not in {change["component"] for change in entry["left"]}


@pytest.mark.slow
def test_a_run_that_slept_and_lost_its_host_begins_nothing_more_there(bare: Project) -> None:
    """As on a laptop that was closed: what it had begun ends meanwhile, and nothing follows it.

    Here only the process sleeps that gives signs of life and begins tasks.
    """
    other = another(bare, "awake")
    tags = ("--tags", "gpu_env")
    first = begin(bare, *tags)
    try:
        wait_for(first, bare.path, FIRST_OF_GPU_ENV)
        os.kill(first.pid, signal.SIGSTOP)
        before = len(events(bare.path))
        time.sleep(10)  # until it is missed: before that a second run would be refused
        second = other.provision("apply", "-i", "lab", *tags)
        assert second.returncode == 0, second.stdout + second.stderr
        assert len(events(bare.path)) == before, "it did not sleep"
        os.kill(first.pid, signal.SIGCONT)
        output, _nothing = first.communicate(timeout=120)
    finally:
        kill_tree(first.pid)
    assert first.returncode == 2, output
    assert "this host is no longer held for this run" in " ".join(output.split())
    later = [event for event in events(bare.path)[before:] if event["event"] == "host_result"]
    changed = {event["task"] for event in later if event["changed"]}
    assert changed <= {FIRST_OF_GPU_ENV}
    failed = [event for event in later if event["status"] == "failed"]
    assert [event["message"] for event in failed] == [MESSAGE]
    assert bare.entry(HOST)["status"] == "failed"
