"""Calls that may never return, in a process of their own with a time limit."""

from __future__ import annotations

import json
import os
import select
import time

from ..host import regular
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable

# In bytes; what a sick library writes must not fill this host's memory.
LIMIT = 4 * 1024 * 1024


class SilentError(Exception):
    """The call did not return within its time."""


class EndedError(Exception):
    """The call's process ended without an answer; the message says how."""


def call(function: Callable[[], Any], seconds: float) -> Any:
    """What `function` returns, as decoded JSON, called in a child process.

    A driver that hangs blocks its callers, and a library that crashes takes its process along.
    Raises SilentError after `seconds`; the child is killed then, or left behind where the kernel
    does not let it die (state D). Raises EndedError where it ended before it had answered.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _answer(function, writing)
    os.close(writing)
    try:
        data = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        status = regular.end(pid)
    if data is None:
        raise SilentError("no answer within {0:.0f} s".format(seconds))
    try:
        return json.loads(data.decode("utf-8"))
    except ValueError:
        raise EndedError("the process that asks ended without an answer" + _how(status)) from None


def _answer(function: Callable[[], Any], handle: int) -> None:
    """Writes what `function` returns, and ends this process without its parent's cleaning up."""
    code = 1
    try:
        text = json.dumps(function()).encode("utf-8")
        while text:
            text = text[os.write(handle, text) :]
        code = 0
    finally:
        os._exit(code)


def _read(handle: int, deadline: float) -> bytes | None:
    """All that is written there until the end; None where that does not come in time."""
    parts: list[bytes] = []
    size = 0
    while size < LIMIT:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            return None
        part = os.read(handle, 65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _how(status: int | None) -> str:
    if status is not None and os.WIFSIGNALED(status):
        return " (signal {0})".format(os.WTERMSIG(status))
    return ""
