"""The name of this process in `ps` while a module does a long step.

Ansible pipes a module to `python3` without arguments, so `ps` and `top` show all modules alike.
"""

from __future__ import annotations

import contextlib
import os

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterator


COMM = "/proc/self/comm"


@contextlib.contextmanager
def called(name: str) -> Iterator[None]:
    """Sets /proc/PID/comm of this process to `name` (at most 15 characters) meanwhile."""
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
