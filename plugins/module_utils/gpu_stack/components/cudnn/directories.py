"""The directories above cuDNN's files: everybody may enter them, only root may write there."""

from __future__ import annotations

import os
import stat

from ...host import modes
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...host.context import Context


def faults(context: Context, root: str, directory: str, names: Iterable[str]) -> dict[str, str]:
    """{directory above the files: why not everybody may enter it, or others may write to it}.

    Who owns the directories above `root` is the administrator's decision.
    """
    paths: set[str] = set()
    for name in names:
        parts = name.split("/")[:-1]
        paths.update("/".join([directory, *parts[:end]]) for end in range(len(parts) + 1))
    parts = [part for part in directory.split("/") if part]
    paths.update("/" + "/".join(parts[: end + 1]) for end in range(len(parts)))
    faulty = {}
    owner = modes.owner_of_all(context)
    for path in sorted(paths):
        info = context.stat(path)
        if info is None or not stat.S_ISDIR(info.st_mode):
            continue
        fault = modes.of_directory(context, info, owner)
        inside = path == root or path.startswith(root + "/")
        if fault is not None and fault.endswith(", closed"):
            faulty[path] = "closed"
        elif inside and fault is not None:
            faulty[path] = fault
        elif inside and info.st_mode & stat.S_IWOTH:
            # With the sticky bit too: the loader would find a library that anybody adds here.
            faulty[path] = f"mode {stat.S_IMODE(info.st_mode):04o}, writable by others"
    return faulty


def repair(
    context: Context, root: str, directory: str, names: Iterable[str], doing: bool = True
) -> list[str]:
    """Corrects the modes and owners of `faults`; returns the paths, sorted.

    A link in a directory's place is the administrator's, and stays. Without `doing` nothing is
    changed.
    """
    repaired = set()
    for step in (_open, _close):
        for path, fault in faults(context, root, directory, names).items():
            info = context.lstat(path)
            if info is not None and stat.S_ISDIR(info.st_mode):
                repaired.add(path)
                if doing and (fault == "closed") == (step is _open):
                    _do(step, path)
    return sorted(repaired)


def _do(step: Callable[[int], None], path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        step(handle)
    finally:
        os.close(handle)


def _open(handle: int) -> None:
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | 0o555)


def _close(handle: int) -> None:
    os.fchown(handle, 0, -1)
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~0o022)
