"""Entries of directories: one is removed, whatever it is; all are written to the disk."""

from __future__ import annotations

import contextlib
import os
import shutil

from .context import run_program

FLUSH = 900.0  # seconds for a slow disk to write what is still in memory


def remove(path: str) -> None:
    """Removes a file, a link or a whole directory; nothing where there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def sync(directory: str) -> None:
    """Makes renames inside a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush(path: str) -> None:
    """Writes the whole filesystem to its disk, before a mark vouches for the files. OSError."""
    answer = run_program(["sync", "--file-system", path], FLUSH)
    if answer.rc != 0:
        message = f"the disk of {path} did not take what was written: {answer.err.strip()}"
        raise OSError(message)
