"""Keeps apt from starting the services of packages that it installs, by Debian's policy-rc.d."""

from __future__ import annotations

import contextlib
import os

from ..type_checking import TYPE_CHECKING
from . import directory_entries, termination

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = "/usr/sbin/policy-rc.d"
# Somebody's own, while ours is in its place.
KEPT = POLICY + ".provision-kept"
NEW = POLICY + ".provision-new"
TEXT = "#!/bin/sh\n# Written by provision while it installs packages.\nexit 101\n"


@contextlib.contextmanager
def none() -> Iterator[None]:
    """No package starts its services inside; what a killed run left is put right before.

    SIGTERM waits for the end: an apt that is at work goes on without the module that called it.
    """
    with termination.orderly(wait=True):
        restore()
        try:
            if os.path.lexists(POLICY):
                os.rename(POLICY, KEPT)
            _write()
            yield
        finally:
            restore()


def _write() -> None:
    """Puts ours in its place, whole: half of it would count as somebody's own."""
    with open(NEW, "w", encoding="utf-8") as file:
        file.write(TEXT)
        file.flush()
        os.fchmod(file.fileno(), 0o755)
        os.fsync(file.fileno())
    os.replace(NEW, POLICY)
    directory_entries.sync(os.path.dirname(POLICY))


def restore() -> None:
    """Packages start their services again, as somebody's own policy says, after a killed run too.

    No other process may be in `none` meanwhile.
    """
    with contextlib.suppress(FileNotFoundError):
        os.remove(NEW)
    if os.path.lexists(KEPT):
        os.replace(KEPT, POLICY)
    elif _ours():
        os.remove(POLICY)
    else:
        return
    directory_entries.sync(os.path.dirname(POLICY))


def _ours() -> bool:
    try:
        with open(POLICY, encoding="utf-8", errors="replace") as file:
            return file.read(len(TEXT) + 1) == TEXT
    except OSError:
        return False
