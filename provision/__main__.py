"""The program's entry, which handles Ctrl-C while the rest is still being imported."""

from __future__ import annotations

import os
import signal
from typing import Any


def _leave(number: int, frame: Any) -> None:  # noqa: ARG001 (the handler's signature)
    """Exits without a traceback through half an import."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """As `provision.cli.main`."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from provision import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


if __name__ == "__main__":
    main()
