"""Ansible as a process: its events as they happen, and every way to its end."""

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
# Ctrl-C, what CI and a shutdown send, and a terminal that is closed.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Fast enough for the eye; one stat call each.
POLL_SECONDS = 0.1
# ansible-core waits up to 10 s for its workers.
PATIENCE_SECONDS = 12


def unseen(event: Event) -> None:
    """Ignores an event: the default."""


def supervise(
    command: Sequence[str],
    env: dict[str, str],
    output: IO[bytes] | None,
    events: Path,
    on_event: Callable[[Event], None],
) -> tuple[int, bool]:
    """(exit code, was it interrupted). Output None is the terminal."""
    events.unlink(missing_ok=True)
    interrupts: list[int] = []
    main = threading.current_thread() is threading.main_thread()

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001 (the handler's signature)
        interrupts.append(number)
        # A Ctrl-C at the terminal reaches Ansible too, for it is in the same process group; a
        # signal sent to this process alone does not.
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
    told = False
    try:
        while process.poll() is None:
            for event in tail.read():
                on_event(event)
            if interrupts and not told:
                told = True
                on_event({"event": "interrupt"})
            time.sleep(POLL_SECONDS)
        for event in tail.read():
            on_event(event)
    finally:
        if process.poll() is None:  # on_event failed: no orphan may go on changing hosts unseen
            _end(process)
        for number, handler in before.items():
            # After Ctrl-C the rest of this process tells what came of it; an impatient second one
            # would take just that away.
            signal.signal(number, signal.SIG_IGN if interrupts else handler)
    return process.returncode, bool(interrupts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends Ansible as gently as it lets itself be ended."""
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
    """Whole new lines of a growing file of JSON lines; half a line waits for its end."""

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
        found = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
        return found
