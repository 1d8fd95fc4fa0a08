"""Writes a daemon's configuration atomically, and keeps the previous file."""

from __future__ import annotations

import os
import tempfile

from ...host import kept_copies
from ...host.kept_names import free_name
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from ...host.context import Context


def inside(context: Context, path: str) -> str:
    """Path on this machine's disk of a host's path."""
    return os.path.join(context.root, path.lstrip("/"))


def text(context: Context, path: str) -> str | None:
    """A file's text; None if it is missing. Raises OSError or UnicodeDecodeError."""
    try:
        with open(inside(context, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace(
    path: str, content: str, status: os.stat_result | None = None, place: str | None = None
) -> None:
    """Replaces a file atomically; owner and mode are those of `status`, of the previous file.

    place: directory of the same file system for the temporary file.
    """
    handle, new = tempfile.mkstemp(dir=place or os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644 if status is None else status.st_mode & 0o7777)
        if status is not None:
            os.chown(new, status.st_uid, status.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def keep(path: str, place: str | None = None) -> tuple[str | None, os.stat_result | None]:
    """Copies a file to a free name; returns (the copy's path, the file's status), or Nones.

    place: directory of the copy, by default the file's.
    """
    if not os.path.exists(path):
        return None, None
    status = os.stat(path)
    saved = free_name(os.path.join(place or os.path.dirname(path), os.path.basename(path)))
    kept_copies.keep(path, saved)
    return saved, status


def put_back(path: str, saved: str | None, place: str | None = None) -> None:
    """Restores a file from the copy `saved`; None removes it."""
    if saved:
        with open(saved, encoding="utf-8") as file:
            replace(path, file.read(), os.stat(saved), place)
    elif os.path.exists(path):
        os.unlink(path)


def note_restart(context: Context, note: str, running: str | None) -> None:
    """Notes that the running daemon, "PID START" or None, has to be restarted."""
    if running is not None:
        path = inside(context, note)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replace(path, running + "\n")
