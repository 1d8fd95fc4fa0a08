"""Copies of files that are kept before they are replaced."""

from __future__ import annotations

import os
import shutil

from . import directory_entries


def keep(path: str, copy: str) -> None:
    """Copies a file with its owner, mode, times and attributes to `copy`, which is not there yet.

    It is on the disk when this returns, and at no time open to more users than the file. OSError.
    """
    with open(path, "rb") as source:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(copy, flags, 0o600)
        try:
            with os.fdopen(handle, "wb") as target:
                shutil.copyfileobj(source, target)
                target.flush()
                _as(source.fileno(), handle)
                os.fsync(handle)
        except BaseException:
            os.unlink(copy)
            raise
    directory_entries.sync(os.path.dirname(copy))


def _as(source: int, target: int) -> None:
    """Gives an open file the owner, mode, times and attributes of another."""
    info = os.fstat(source)
    if os.geteuid() == 0:
        os.fchown(target, info.st_uid, info.st_gid)
    shutil.copystat(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}")
