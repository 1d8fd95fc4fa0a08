"""Lets an interrupted run write its report, whichever signals are sent and how often."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns every terminating signal into a KeyboardInterrupt, so that the report is written.

    ansible-core restores the default action at the first signal: a second one would kill it before
    its report (blocking does not help: the kernel delivers it to one of Ansible's other threads).
    And Python drops exceptions that are raised while it forks: a signal that comes then is sent
    again.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._forking = False
        self._workers: Any = ()

    def survive(self) -> None:
        """Installs the handlers, unless another program handles the signals."""
        first = signal.getsignal(signal.SIGINT)
        self._workers = getattr(getattr(first, "__self__", None), "_workers", ())
        try:
            if callable(first):
                signal.signal(signal.SIGINT, self._interrupt)
            # From CI, a shutdown of this machine, a closed terminal; nohup has them ignored.
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self._terminate)
        except ValueError:
            return  # not in the main thread: a program embeds Ansible and handles signals
        # The last to be registered are the outermost of all such hooks.
        os.register_at_fork(
            before=lambda: self._fork(True),
            after_in_parent=lambda: self._fork(False),
            after_in_child=lambda: self._fork(False),
        )

    def _fork(self, begins: bool) -> None:
        self._forking = begins

    def _later(self, number: int) -> bool:
        """Sends a signal again that came during a fork; whether that is so."""
        if self._forking and os.getpid() == self._pid:
            threading.Timer(0.05, os.kill, (self._pid, number)).start()
            return True
        return False

    def _interrupt(self, number: int, frame: Any) -> None:  # noqa: ARG002
        if self._later(number):
            return
        if os.getpid() != self._pid:
            by_default(number)
        # What ansible-core's handler does, without the default action meanwhile.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for worker in self._workers:
            if worker is not None and worker.is_alive():
                with contextlib.suppress(OSError):
                    os.kill(worker.pid, number)
        signal.signal(signal.SIGINT, self._again)
        raise KeyboardInterrupt

    def _again(self, number: int, frame: Any) -> None:
        if not self._later(number):
            signal.default_int_handler(number, frame)

    def _terminate(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:
            by_default(number)
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)


def by_default(number: int) -> None:
    """Ends a worker that has no handlers of its own yet: an exception would unwind our stack."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def ignore_endings() -> None:
    """Ignores every terminating signal but SIGKILL from now on."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def end_workers() -> None:
    """Ends workers that Ansible lost track of, as one that Ctrl-C met during its fork."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        own = Path("/proc/self/cmdline").read_bytes()
        # Started programs, such as ssh, have another command line.
        workers = [
            int(pid) for pid in text.split() if Path(f"/proc/{pid}/cmdline").read_bytes() == own
        ]
    except OSError:  # not Linux, or it has ended meanwhile
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in workers:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + 1.0
        while workers and time.monotonic() < deadline:
            workers = [pid for pid in workers if not _reaped(pid)]
            time.sleep(0.05)


def _reaped(pid: int) -> bool:
    """Whether this child has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except OSError:
        return True
