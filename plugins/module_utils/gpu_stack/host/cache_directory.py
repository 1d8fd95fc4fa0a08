"""Judges the folder that the fleet's cache is to have for itself (role artifact_cache).

nginx deletes what lies in its cache and has none of its names, and gives the cache to its own user.
So a folder is only taken where nothing of anybody else's is in it, and where nobody else can put
another in its place meanwhile.
"""

from __future__ import annotations

import os
import pwd
import re
import stat

from ..type_checking import TYPE_CHECKING
from . import roots_alone
from .context import Context
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Iterator

OPTION = "artifact_cache_directory"
# What is the cache's there, and what mkfs leaves at the top of a disk.
FILES = "files"
_AT_THE_TOP = {FILES, "lost+found"}
_USER = "www-data"
# levels=1:2 of nginx.conf: files/f/3e/<MD5>, and while it is written <MD5>.<number>.
_NAMES = tuple(
    re.compile(shape) for shape in (r"[0-9a-f]", r"[0-9a-f]{2}", r"[0-9a-f]{32}(\.[0-9]{10})?")
)
_NOTHING = "Nothing was changed."
_GIB = 1 << 30


def settle(params: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """The result of the module `cache_directory`, which changes nothing; RefusalError."""
    return look(Context(), params["path"], params["size_gb"])


def look(context: Context, path: str, size_gb: int) -> dict[str, Any]:
    """{changed, room_gib: with what is cached already}; RefusalError for a folder that is not the
    cache's, or, unless size_gb is 0, has no room for so many GiB.
    """
    path = "/" + "/".join(part for part in path.split("/") if part)
    _check_ways(context, path)
    _check_top(context, path)
    has = sum(info.st_blocks * 512 for info in _cached(context, path))
    free = context.disk_free(path)
    room = None if free is None else (free + has) // _GIB
    if size_gb and (room is None or room < size_gb):
        raise RefusalError(
            f"{path} has room for {'an unknown number of' if room is None else room} GiB with what"
            f" is cached there already, and artifact_cache_size_gb is {size_gb}: a full disk would"
            f" stop every host in the middle. Make it smaller, or choose another {OPTION}."
            f" {_NOTHING}"
        )
    return {"changed": False, "room_gib": room}


def _refusal(reason: str, todo: str = "") -> RefusalError:
    todo = todo or "Choose a folder that is not there yet, or an empty one of root's."
    return RefusalError(f"{OPTION}: {reason}. {todo} {_NOTHING}")


def _owners() -> set[int]:
    """Users whose files can be the cache's. In a recorded tree they belong to whoever looks."""
    try:
        return {0, os.geteuid(), pwd.getpwnam(_USER).pw_uid}
    except KeyError:  # before nginx is installed
        return {0, os.geteuid()}


def _check_ways(context: Context, path: str) -> None:
    """RefusalError where others than root can change what a folder above it has."""
    above = os.path.dirname(path)
    while not context.exists(above):
        above = os.path.dirname(above)
    for way in roots_alone.ways(above, context.resolve(above) or above):
        info = context.lstat(way)
        if info is None:
            raise _refusal(f"{way} can't be read")
        if not stat.S_ISLNK(info.st_mode) and not stat.S_ISDIR(info.st_mode):
            raise _refusal(f"{way} is no folder")
        if roots_alone.others_change(info):
            raise _refusal(
                f"others than root can change {way}, and so put something else in the place of"
                f" {path} while root writes there"
            )


def _check_top(context: Context, path: str) -> None:
    """RefusalError where the folder is there, and not root's with the cache in it alone."""
    info = context.lstat(path)
    if info is None:
        return
    if stat.S_ISLNK(info.st_mode):
        raise _refusal(f"{path} is a link, to {context.readlink(path)}", "Name the folder itself.")
    if not stat.S_ISDIR(info.st_mode):
        raise _refusal(f"{path} is there, and no folder")
    if info.st_uid not in (0, os.geteuid()):
        raise _refusal(f"{path} belongs to {_name(info.st_uid)}, and the cache's is root's")
    if info.st_mode & 0o022:
        raise _refusal(f"others than root can write in {path}")
    strange = [name for name in context.listdir(path) if name not in _AT_THE_TOP]
    if strange:
        raise _foreign(path, strange)


def _foreign(place: str, names: list[str]) -> RefusalError:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return _refusal(
        f"{place} has what is not the cache's: {', '.join(sorted(names)[:3])}{more}. nginx would"
        " delete it, or stand in its way"
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _cached(context: Context, path: str) -> Iterator[os.stat_result]:
    """What nginx keeps there, each file; RefusalError at the first thing that it can't have made.

    A cache at work deletes files meanwhile.
    """
    owners = _owners()
    todo = [(f"{path}/{FILES}", 0)]
    while todo:
        place, depth = todo.pop()
        info = context.lstat(place)
        if info is None:
            continue
        is_file = depth == len(_NAMES)
        fits = stat.S_ISREG(info.st_mode) if is_file else stat.S_ISDIR(info.st_mode)
        if not fits or info.st_uid not in owners:
            raise _foreign(os.path.dirname(place), [os.path.basename(place)])
        if is_file:
            yield info
            continue
        names = context.listdir(place)
        strange = [name for name in names if not _NAMES[depth].fullmatch(name)]
        if strange:
            raise _foreign(place, strange)
        todo += [(f"{place}/{name}", depth + 1) for name in names]
