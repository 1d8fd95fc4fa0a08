"""A run that is to be broken, and the watcher that strikes on the host in the middle of it."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.errors import MachineError

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


WATCH = (ROOT / "scripts" / "fault_watch.py").read_text("utf-8")


RUN_TIMEOUT = 3600.0


# How long a broken run may take to end, in seconds: ssh gives up after 90 s of silence.
NOTICE_TIMEOUT = 900.0


class Watcher:
    """A process of fault_watch.py on the host; `answer` is its last JSON line.

    `on_host` makes the command line that runs a command there.
    """

    def __init__(self, on_host: Callable[..., list[str]], spec: Mapping[str, Any]) -> None:
        self.answer: dict[str, Any] | None = None
        self._process = subprocess.Popen(
            on_host("python3", "-c", WATCH, json.dumps(spec)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101 (for the type checker)
        if b"ready" not in self._process.stdout.readline():
            raise MachineError("the watcher did not start", got=self._end())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self.answer = json.loads(line)

    def tell(self) -> None:
        """Tells the watcher to strike now."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def stop(self) -> str:
        """Ends the watcher, so that it can't strike a later run; returns its stderr."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join(timeout=5)
        return self._end()

    def _end(self) -> str:
        assert self._process.stderr is not None  # noqa: S101
        return self._process.stderr.read().decode("utf-8", "replace")[-300:]


def kill_tree(pid: int) -> list[int]:
    """Kills a process's group and all that descends from it; returns the latter.

    ansible-core's workers have process groups of their own, and one that waits for ssh would stay.
    """
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=30
    )
    children: dict[int, list[int]] = {}
    for line in listed.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    descendants = list(children.get(pid, []))
    for descendant in descendants:  # grows as it goes
        descendants += children.get(descendant, [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for descendant in descendants:
        with contextlib.suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)
    return descendants


class Run:
    """A plain `ansible-playbook site.yml -i lab`, its events and its report."""

    def __init__(self, project: Path, log: Path, connections: Path, *arguments: str) -> None:
        self._events = project / "report" / "latest" / "events.jsonl"
        self._report = project / "report" / "latest" / "report.json"
        # Earlier runs keep their folders, but are not mistaken for this one.
        (project / "report" / "latest").unlink(missing_ok=True)
        self.started = time.time()
        self.log = log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [str(BIN / "ansible-playbook"), "site.yml", "-i", "lab", *arguments],
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A folder for its connections, so that only this host's can be ended.
                env=os.environ | {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(connections)},
            )

    def running(self) -> bool:
        return self.process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        events = []
        with contextlib.suppress(OSError):
            for line in self._events.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError):  # the last line may be incomplete
                    events.append(json.loads(line))
        return events

    def now(self) -> tuple[str, float]:
        """The current task, and when it began (seconds since the epoch)."""
        for event in reversed(self.events()):
            if event["event"] in ("host_start", "host_result"):
                return event["task"], seconds(event["time"])
        return "before the first task", self.started

    def wait(self, timeout: float) -> int:
        """Waits for the exit code; kills a run that takes longer and raises MachineError."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MachineError(
                f"ansible-playbook did not end in {timeout:.0f} s", got=self.now()[0]
            ) from None

    def kill(self) -> None:
        kill_tree(self.process.pid)
        self.process.wait()

    def report(self) -> dict[str, Any] | None:
        """The finished report of this run; None without one."""
        with contextlib.suppress(OSError, ValueError):
            if self._report.stat().st_mtime >= self.started:
                loaded: dict[str, Any] = json.loads(self._report.read_text("utf-8"))
                return None if loaded.get("unfinished") else loaded
        return None

    def took(self) -> float:
        """Seconds from the plan to the end of the events."""
        events = self.events()
        plan = next((e for e in events if e["event"] == "plan"), None)
        return seconds(events[-1]["time"]) - seconds(plan["time"]) if plan else 0.0


def seconds(stamp: str) -> float:
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class NotHitError(Exception):
    """The run ended before the fault could happen, or succeeded in spite of it."""


class Hit:
    """What a fault hit: the task, how long it had run, and how the run ended."""

    def __init__(self) -> None:
        self.what = ""
        self.task = ""
        self.offset = 0.0
        self.running: list[str] = []
        self.code = 0
        self.noticed = 0.0
        self.status = ""
        self.message = ""
        self.wrong: list[str] = []


ACTS = {"module": "kill-module", "dpkg": "kill-dpkg", "disk": "fill"}


def provision(*arguments: str) -> None:
    """Runs the generator; raises MachineError with what it says where it fails."""
    done = subprocess.run(
        [str(BIN / "provision"), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MachineError(f"provision {arguments[0]} failed", got=done.stdout + done.stderr)
