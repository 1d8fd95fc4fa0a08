"""Runs Ansible as a process: passes its events on as they happen, and ends it cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from provision.errors import MachineError

Event = dict[str, Any]
# Ctrl-C; CI's and a shutdown's signal; a closed terminal.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Fast enough for the eye; one stat call each.
POLL_SECONDS = 0.1
# ansible-core waits up to 10 s for its workers.
PATIENCE_SECONDS = 12


def ignore_event(event: Event) -> None:
    """Default no-op handler."""


def supervise(
    command: Sequence[str],
    env: dict[str, str],
    output: IO[bytes] | None,
    events: Path,
    on_event: Callable[[Event], None],
) -> tuple[int, bool]:
    """Runs a command and passes on its events: (exit code, was it interrupted).

    `output` None: the terminal. Raises MachineError where the command can't be started.
    """
    events.unlink(missing_ok=True)
    interrupts: list[int] = []
    main = threading.current_thread() is threading.main_thread()

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001 (the handler's signature)
        interrupts.append(number)
        # A Ctrl-C at the terminal reaches Ansible too, in the same process group; a signal sent to
        # this process alone does not.
        if number != signal.SIGINT or not _at_terminal():
            process.send_signal(signal.SIGINT)

    try:
        process = subprocess.Popen(list(command), env=env, stdout=output, stderr=output)
    except OSError as error:
        raise MachineError(
            f"can't be started: {error.strerror}", where=command[0], hint="install ansible-core"
        ) from None
    before = {number: signal.signal(number, interrupt) for number in (ENDINGS if main else ())}
    tail = Tail(events)
    announced = False
    try:
        while process.poll() is None:
            for event in tail.read():
                on_event(event)
            if interrupts and not announced:
                announced = True
                on_event({"event": "interrupt"})
            time.sleep(POLL_SECONDS)
        for event in tail.read():
            on_event(event)
    finally:
        if process.poll() is None:  # on_event failed: no orphan may keep changing hosts
            _end(process)
        for number, handler in before.items():
            # After Ctrl-C this process still shows the outcome; a second one must not stop that.
            signal.signal(number, signal.SIG_IGN if interrupts else handler)
    return process.returncode, bool(interrupts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends Ansible: SIGINT twice, then SIGTERM, then SIGKILL."""
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


def _at_terminal() -> bool:
    """Is this process in the foreground of a terminal, whose Ctrl-C reaches the whole group?"""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


class Tail:
    """Reads new events from a growing file of JSON lines; a partial line is left for later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        """Events since the last call."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        events = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events
