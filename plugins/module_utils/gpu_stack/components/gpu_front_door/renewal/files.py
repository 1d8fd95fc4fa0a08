"""Reads and writes the door's files; each is written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Host(Protocol):
        """Whatever reads the host's files: this module, or the look's Context."""

        def read(self, path: str) -> str | None: ...

        def isdir(self, path: str) -> bool: ...


# Another one in tests alone.
ROOT = "/"


def inside(path: str) -> str:
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def read(path: str) -> str | None:
    """A file's text, whatever bytes it has; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def isdir(path: str) -> bool:
    return os.path.isdir(inside(path))


def exists(path: str) -> bool:
    return os.path.exists(inside(path))


def data(path: str) -> dict[str, Any] | None:
    """A file's JSON object; None where there is none, or it is something else."""
    try:
        content = json.loads(read(path) or "null")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def put(path: str, content: str, mode: int = 0o644) -> None:
    """The whole file or the old one; directories that are not there are made."""
    real = inside(path)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    if os.path.isdir(real) and not os.path.islink(real):
        os.rmdir(real)  # a bind mount leaves an empty one; with something in it this says so
    handle, new = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        os.replace(new, real)
    except BaseException:
        os.unlink(new)
        raise


def forget(path: str) -> None:
    if os.path.lexists(inside(path)):
        os.unlink(inside(path))


def remove_if_empty(folder: str) -> None:
    if isdir(folder) and not os.listdir(inside(folder)):
        os.rmdir(inside(folder))


def digest(content: str | None) -> str | None:
    """The SHA-256 of a file's text; None of None."""
    if content is None:
        return None
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()
