"""An end to what an action does on a host, without the task's `timeout`.

A template in `timeout` is compiled anew in every host's worker: on many hosts a part of what the
look costs the controller that can be measured.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import Any

# Less would end the look of a good host; and 0, which `10m` comes to, would be no limit.
SHORTEST = 10
DEEP = 6


class OutOfTimeError(BaseException):
    """Raised in a block that was not done in its time.

    A BaseException, as ansible-core's own: connections try again after an Exception.
    """


def seconds(timeout: Any, deep: bool) -> int:
    """How long a look may take; `timeout`: gpu_look_timeout, a number or text with one."""
    try:
        limit = int(timeout)
    except (TypeError, ValueError):
        limit = 0
    return max(limit, SHORTEST) * (DEEP if deep else 1)


@contextlib.contextmanager
def within(limit: int) -> Iterator[None]:
    """Raises OutOfTimeError where the block is not done within `limit` seconds.

    Only in a process's main thread, as Ansible's workers are. An alarm that is set already, such as
    that of the task's own `timeout`, stays: the sooner of both ends the block.
    """

    def end(_number: int, _frame: Any) -> None:
        raise OutOfTimeError

    begun = time.monotonic()
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < left <= limit:
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.alarm(max(1, int(left - (time.monotonic() - begun))))
