"""Processes that a program starts: to kill them, or to see what a new process sees.

A program that does so opens no device while they run: a card may be set to one process at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, Iterator

from .common import MARK

MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
COMMAND = [sys.executable, "-I", "-B", MAIN]


@contextlib.contextmanager
def scratch(given: dict[str, Any]) -> Iterator[str]:
    """An empty folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=given.get("folder")) as folder:
        yield folder


def start(program: str, given: dict[str, Any]) -> subprocess.Popen[str]:
    """The program in a process of its own; its output is a pipe, its errors are ours."""
    return subprocess.Popen(
        [*COMMAND, program, json.dumps(given)], stdout=subprocess.PIPE, universal_newlines=True
    )


def told(**facts: Any) -> bytes:
    """An answer as a line that is written at once: what is killed has told it or has not."""
    return (MARK + json.dumps(facts) + "\n").encode()


def read(line: str) -> dict[str, Any] | None:
    """What a line of a program's output answers; None of one that libraries print."""
    if not line.startswith(MARK):
        return None
    facts: dict[str, Any] = json.loads(line[len(MARK) :])
    return facts


def ask(program: str, given: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """(all answers, error or None) of the program in a process of its own."""
    command = [*COMMAND, program, json.dumps(given)]
    pipe = subprocess.PIPE
    done = subprocess.run(command, stdout=pipe, stderr=pipe, universal_newlines=True, check=False)
    sys.stderr.write(done.stderr)
    answers = [read(line) for line in done.stdout.splitlines()]
    error, last = None, (done.stderr.strip().splitlines() or [""])[-1].strip()
    if done.returncode < 0:
        error = "it was ended by signal {0}".format(-done.returncode)
        # A library that can't go on says why, and aborts.
        if last and -done.returncode == signal.SIGABRT:
            error += ": " + last
    elif done.returncode:
        # The last line of a traceback is the error itself.
        error = last or str(done.returncode)
    return [facts for facts in answers if facts is not None], error
