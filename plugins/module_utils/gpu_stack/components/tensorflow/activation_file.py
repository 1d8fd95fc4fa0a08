"""Writes an environment's `bin/activate`, with the blocks of `activation`."""

from __future__ import annotations

import os
import tempfile

from .activation import with_blocks


def bring(path: str, prefix: str, dry: bool = False) -> tuple[str, str]:
    """Sets the CUDA of an `activate` to `prefix`, or to none where that is ""; (old, new) text.

    A file that is missing or empty stays so. `dry`: nothing is written.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        text = ""
    new = with_blocks(text, prefix) if text else text
    if new != text and not dry:
        _write(path, new)
    return text, new


def _write(path: str, text: str) -> None:
    """Replaces the file atomically, and keeps its mode and owner."""
    info = os.stat(path)
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(new, info.st_mode & 0o7777)
        os.chown(new, info.st_uid, info.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
