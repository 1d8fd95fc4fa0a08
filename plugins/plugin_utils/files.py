"""Writes files that others read while a run is at work."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def encoded(text: str) -> bytes:
    """The text as UTF-8. A lone surrogate is written as `\\udce9`, which JSON reads back.

    Ansible has one for every byte of a host's output that is no UTF-8.
    """
    return text.encode("utf-8", "backslashreplace")


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file atomically, readable by everybody (0644) whatever the umask is."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(encoded(text))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
