"""Runs a command and measures its wall clock and processor time.

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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# Orphans that take longer to end are killed.
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Cost:
    """The cost of one run of a command."""

    wall: float
    """Seconds from its start to its end."""
    cpu: float
    """Seconds of user and system time of it and all its descendants, masters included."""
    exit: int


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
) -> Cost:
    """Runs `command` with its output in `log`, and measures it.

    `afterwards` ends processes that the command leaves running on purpose (connection masters). Its
    own time is not counted; the processor time of those processes is.
    """
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
            code = process.wait()
            wall = time.monotonic() - started
        if afterwards is not None:
            afterwards()
        _reap()
        return Cost(wall, _used() - before, code)


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
