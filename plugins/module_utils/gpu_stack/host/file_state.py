"""Faults of files that a role writes whole, beside their text: kind, owner and mode.

A profile that only root can read, a drop-in that is a link into somebody's home, or an empty
directory that a container's bind mount made in a file's place has the right name, and maybe the
right text; but programs can't read it, or its owner can change it.
"""

from __future__ import annotations

import stat

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterable

    from .context import Context

MODE = 0o644


def fault(context: Context, path: str, mode: int = MODE) -> str | None:
    """What keeps `path` from being an ordinary file of root's with this mode; None if it is one.

    A path that does not exist has no fault: its missing text is reported instead.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if stat.S_ISLNK(info.st_mode):
        return "a link to {0}".format(context.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "not a file"
    root = context.stat("/")
    if root is not None and (info.st_uid, info.st_gid) != (root.st_uid, root.st_gid):
        return "owned by {0}:{1}".format(info.st_uid, info.st_gid)
    if stat.S_IMODE(info.st_mode) != mode:
        return "mode {0:04o}".format(stat.S_IMODE(info.st_mode))
    return None


def folder_fault(context: Context, path: str) -> str | None:
    """What keeps `path` from being a directory that root alone can write to; None if it is one.

    A path where nothing is has no fault.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return "no directory"
    root = context.stat("/")
    if root is not None and info.st_uid != root.st_uid:
        return f"owned by {info.st_uid}"
    mode = stat.S_IMODE(info.st_mode)
    return None if mode == 0o755 else f"mode {mode:04o}"


def faults(context: Context, paths: Iterable[str]) -> dict[str, str]:
    """{path: fault} of the paths that have one."""
    result: dict[str, str] = {}
    for path in paths:
        problem = fault(context, path)
        if problem is not None:
            result[path] = problem
    return result


def complaint(content: str | None, expected: str | None, fault: str | None) -> str | None:
    """How a file differs from what a role writes, as a change's `from`; None if it doesn't.

    `content` and `expected` are texts, None where there is no file.
    """
    if expected is None:
        return None if content is None and fault is None else "present"
    if fault is not None:
        return fault
    if content == expected:
        return None
    return "absent" if content is None else "other content"
