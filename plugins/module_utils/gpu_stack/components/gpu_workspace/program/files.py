"""Files of the host: read where they are there, written whole."""

from __future__ import annotations

import json
import os
import tempfile

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

ROOT = "/"


def inside(path: str) -> str:
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path: str) -> str | None:
    """A file's text; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def data(path: str) -> Any:
    """A file's JSON; None where there is none, or it is something else."""
    try:
        return json.loads(text(path) or "null")
    except ValueError:
        return None


def put(path: str, content: str, mode: int = 0o600, owner: tuple[int, int] = (0, 0)) -> None:
    """The whole file or the old one."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(inside(path)), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        if os.geteuid() == 0:
            os.chown(new, *owner)
        os.replace(new, inside(path))
    except BaseException:
        os.unlink(new)
        raise
