"""The lock of whoever changes the door: a run of Ansible, or the renewal of its certificate."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from .files import inside
from .paths import LOCK
from .programs import RefusedError

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from collections.abc import Iterator


# Seconds that a renewal may take: it starts or reloads nginx.
PATIENCE = 150.0


class BusyError(RefusedError):
    """Another process changes the door now."""


@contextlib.contextmanager
def held(patience: float = 0) -> Iterator[None]:
    """Holds the lock; BusyError where another process holds it for `patience` seconds more.

    Only root can open the file, so no user can keep it locked. The kernel releases the lock when
    its process ends.
    """
    path, begun = inside(LOCK), time.monotonic()
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - begun >= patience:
                    raise BusyError(
                        f"another process changes the front door: it holds {LOCK}"
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
