"""The name of this process in `ps` while a module does a long step.

A module comes through a pipe and runs as `python3` without arguments: `ps`, `top` and whoever
looks for it on the host can't tell one from another.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Iterator


COMM = "/proc/self/comm"


@contextlib.contextmanager
def called(name: str) -> Iterator[None]:
    """This process has `name` (at most 15 characters) in /proc/PID/comm meanwhile."""
    before = _read()
    _write(name.encode())
    try:
        yield
    finally:
        _write(before)


def _read() -> bytes:
    handle = os.open(COMM, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 64).rstrip(b"\n")
    finally:
        os.close(handle)


def _write(name: bytes) -> None:
    handle = os.open(COMM, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, name)
    finally:
        os.close(handle)
