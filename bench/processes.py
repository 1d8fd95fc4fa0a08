"""Runs a command and measures its wall clock, processor time and, if asked, memory.

ssh's connection masters daemonize, and their processor time would be lost. So the measuring process
adopts orphans meanwhile, and waits for and counts all descendants of the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# Orphans that take longer to end are killed.
PATIENCE_SECONDS = 10.0
# Between two looks at the memory: one takes a tenth of a second where there are a thousand masters.
WEIGH_SECONDS = 1.0


@dataclass(frozen=True)
class Cost:
    """The cost of one run of a command."""

    wall: float
    """Seconds from its start to its end."""
    cpu: float
    """Seconds of user and system time of it and all its descendants, masters included."""
    exit: int
    memory: int = 0
    """Bytes of memory that all of them had at most at once, shared pages counted once; 0 where it
    was not weighed."""


@contextlib.contextmanager
def adopted_orphans() -> Iterator[None]:
    """Makes this process adopt orphaned descendants for the block. prctl(2).

    Not longer: the monitor of a host's container would be adopted too, and be counted or killed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def measure(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: Path | None = None,
    afterwards: Callable[[], None] | None = None,
    weigh: bool = False,
) -> Cost:
    """Runs `command` with its output in `log`, and measures it.

    `afterwards` ends processes that the command leaves running on purpose (connection masters). Its
    own time is not counted; the processor time of those processes is. `weigh`: its memory too; the
    weighing takes processor time, so such a run's time counts for nothing.
    """
    scale = Scale() if weigh else None
    with adopted_orphans():
        before = _used()
        with log.open("wb") as stream, contextlib.ExitStack() as stack:
            source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
            started = time.monotonic()
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=source,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            if scale is not None:
                stack.enter_context(scale.weighing())
            code = process.wait()
            wall = time.monotonic() - started
        if afterwards is not None:
            afterwards()
        _reap()
        return Cost(wall, _used() - before, code, scale.most if scale is not None else 0)


class Scale:
    """Weighs this process's descendants again and again; `most` is the most that they had."""

    def __init__(self) -> None:
        self.most = 0
        self._end = threading.Event()

    @contextlib.contextmanager
    def weighing(self) -> Iterator[None]:
        """Weighs for the block, and once more at its end, when all masters are there."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()
            self.most = max(self.most, weight(os.getpid()))

    def _work(self) -> None:
        while not self._end.wait(WEIGH_SECONDS):
            self.most = max(self.most, weight(os.getpid()))


def weight(pid: int) -> int:
    """Bytes of memory of a process's descendants; of shared pages each has its part. proc(5)."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                text = (place / "stat").read_text("utf-8", "replace")
                parent = int(text[text.rindex(")") + 2 :].split()[1])
                parents.setdefault(parent, []).append(int(place.name))
    waiting, total = list(parents.get(pid, [])), 0
    while waiting:
        child = waiting.pop()
        waiting += parents.get(child, [])
        total += _proportional(child)
    return total


def _proportional(pid: int) -> int:
    """Bytes of one process's memory; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Waits for all orphans; kills those left after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            continue
        if time.monotonic() > deadline:
            for child in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]
