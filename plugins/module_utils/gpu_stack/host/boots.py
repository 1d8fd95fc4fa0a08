"""Which files have been compared since the host booted.

A power cut leaves files empty or cut short behind a mark that says they are whole: what a disk had
in its own cache is lost. The sizes of an environment's 17,000 files tell, but asking for them takes
longer than the rest of a look, and nothing but a boot makes them worth it. So they are compared
after a boot, by every look until a run finds the host as it should be and notes that. What others
than root can write is no such note.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from ..type_checking import TYPE_CHECKING
from . import mapping

if TYPE_CHECKING:
    from .context import Context

# proc(5): another one after each boot, whatever the clock says. A container has its machine's.
BOOT = "/proc/sys/kernel/random/boot_id"
NOTE = "/var/cache/provision-compared"
STATE = "/var/lib/provision"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def current(context: Context) -> str:
    """The kernel's name of this boot; "" where it has none."""
    return (context.read(BOOT) or "").strip()


def due(context: Context, path: str) -> bool:
    """Whether the files below `path` have not been compared since the host booted.

    Whoever asks compares them now, which goes into `context.compared`. False where no boot has a
    name.
    """
    boot = current(context)
    if not boot or path in _compared(context, boot):
        return False
    context.compared.append(path)
    return True


def note(context: Context, paths: list[str]) -> None:
    """Notes that the files below these paths were whole in this boot, for root alone.

    Leaves it where that can't be done, and where no run has begun: nothing is left there.
    """
    boot = current(context)
    if not boot or not paths or not context.isdir(STATE):
        return
    paths = sorted({*_compared(context, boot), *paths})
    place = os.path.join(context.root, os.path.dirname(NOTE).lstrip("/"))
    name = os.path.basename(NOTE)
    fresh = name + ".new"
    try:
        directory = os.open(place, _DIRECTORY)
    except OSError:
        return
    try:
        if not _of_root(context, os.fstat(directory)):
            return
        # Not synced: what a power cut takes of it is of the boot before.
        handle = os.open(fresh, _NEW, 0o600, dir_fd=directory)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"boot": boot, "compared": paths}, file)
        os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:  # no space, or the rest of a look that was killed: the next look compares again
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
    finally:
        os.close(directory)


def _compared(context: Context, boot: str) -> list[str]:
    """The paths that are noted for this boot."""
    info = context.lstat(NOTE)
    if info is None or not _of_root(context, info):
        return []
    content = mapping.of(context.read(NOTE))
    if content is None or content.get("boot") != boot:
        return []
    paths = content.get("compared")
    return [str(path) for path in paths] if isinstance(paths, list) else []


def _of_root(context: Context, info: os.stat_result) -> bool:
    """Whether nobody but root, the owner of `/`, can write there."""
    root = context.stat("/")
    return root is not None and info.st_uid == root.st_uid and not info.st_mode & _OTHERS_WRITE
