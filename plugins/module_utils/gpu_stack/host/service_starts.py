"""Keeps apt from starting the services of packages that it installs, by Debian's policy-rc.d."""

from __future__ import annotations

import contextlib
import os

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = "/usr/sbin/policy-rc.d"
# Somebody's own, while ours is in its place.
KEPT = POLICY + ".provision-kept"
NEW = POLICY + ".provision-new"
TEXT = "#!/bin/sh\n# Written by provision while it installs packages.\nexit 101\n"


@contextlib.contextmanager
def none() -> Iterator[None]:
    """No package starts its services inside; what a killed run left is put right before."""
    _restore()
    if os.path.lexists(POLICY):
        os.rename(POLICY, KEPT)
    try:
        with open(NEW, "w", encoding="utf-8") as file:
            file.write(TEXT)
            os.fchmod(file.fileno(), 0o755)
        os.replace(NEW, POLICY)
        yield
    finally:
        _restore()


def _restore() -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(NEW)
    if os.path.lexists(KEPT):
        os.replace(KEPT, POLICY)
    elif _ours():
        os.remove(POLICY)


def _ours() -> bool:
    try:
        with open(POLICY, encoding="utf-8", errors="replace") as file:
            return file.read(len(TEXT) + 1) == TEXT
    except OSError:
        return False
