"""What SIGTERM does in a block that has something to clean up: by default nothing is cleaned up."""

from __future__ import annotations

import contextlib
import signal
import sys

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterator


@contextlib.contextmanager
def orderly(wait: bool = False) -> Iterator[None]:
    """SIGTERM raises SystemExit in the block, or with `wait` once the block has ended."""
    asked: list[int] = []

    def end(number: int, _frame: Any) -> None:
        asked.append(number)
        if not wait:
            sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if asked:
            sys.exit(128 + asked[0])
