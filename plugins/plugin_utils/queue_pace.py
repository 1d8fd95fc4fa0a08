"""Has Ansible ask its workers less often whether one is free.

Where more hosts than forks are at work, the strategies ask each worker whether it has ended, sleep
0.1 ms and ask again (`_queue_task` of ansible/plugins/strategy/__init__.py, the same in 2.17 to
2.21). With 50 forks that takes a processor two thirds of its time, which the workers lack. The
setting internal_poll_interval is for the wait for results alone.
"""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins import strategy

# Seconds. A free worker waits half of it on average; a worker is at work for far longer.
PAUSE = 0.005
# Longer sleeps are of settings.
BUSY = 0.001


class Clock:
    """The module `time`, whose `sleep` takes no less than PAUSE where it was to be a busy wait."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Sleeps `seconds`, or PAUSE where they are less than BUSY."""
        time.sleep(PAUSE if seconds < BUSY else seconds)


def slow_down() -> None:
    """Gives Ansible's strategies this clock. Does nothing where they sleep in another way."""
    if getattr(strategy, "time", None) is time:
        strategy.time = Clock()
