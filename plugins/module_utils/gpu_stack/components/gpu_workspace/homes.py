"""Creates the homes, closes them to the host's accounts, and sets their owners."""

from __future__ import annotations

import os
import re
import resource
import stat

from ...type_checking import TYPE_CHECKING
from . import wished, workspace_users
from .program import files, places, traits

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context


def owner_of(path: str) -> str | None:
    """ "uid:gid" of a directory; None where there is none, or it is a link or something else."""
    try:
        info = os.lstat(files.inside(path))
    except OSError:
        return None
    return f"{info.st_uid}:{info.st_gid}" if stat.S_ISDIR(info.st_mode) else None


def open_to_others(root: str) -> bool:
    """Whether the homes' root exists and users other than root can enter it."""
    try:
        info = os.stat(files.inside(root))
    except OSError:
        return False
    return info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) != 0o700


def close_root(root: str) -> None:
    """Makes the homes' root accessible to root alone: an account of the host with a person's uid
    could otherwise run what a container leaves in a home."""
    real = files.inside(root)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    if not os.path.isdir(real):
        os.mkdir(real, 0o700)
    handle = os.open(real, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.geteuid() == 0:
            os.fchown(handle, 0, 0)
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def mounted_in(home: str) -> list[str]:
    """Mount points below a home, whose files may be somebody else's."""
    mounts = []
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        place = re.sub(
            r"\\([0-7]{3})", lambda escape: chr(int(escape.group(1), 8)), line.split()[4]
        )
        if place.startswith(home + "/"):
            mounts.append(place)
    return mounts


def refuse_homes(context: Context, people: list[dict[str, Any]], users: dict[str, str]) -> None:
    """RefusedError for a root or a home that can't be made safe."""
    root = wished.root_of(context.options)
    why = workspace_users.unfit(context) if people else None
    if why:
        raise places.RefusedError(f"gpu_workspace_root can't be {root}: {why}")
    for person in people:
        home = places.home_of(root, person["name"])
        if os.path.lexists(files.inside(home)) and owner_of(home) is None:
            raise places.RefusedError(
                f"{home} is no directory; where homes are on another disk, mount it there or name "
                "it in gpu_workspace_root"
            )
        mounted = mounted_in(home)
        if mounted and owner_of(home) != users.get(person["name"]):
            raise places.RefusedError(
                "{0} is mounted in the home of {1}, which is to get another owner; unmount it "
                "first, or bring it by `volumes`".format(mounted[0], person["name"])
            )


def hand_over(home: str, new: tuple[int, int]) -> None:
    """Gives a home to the uid and gid `new`, with all in it that was its former owner's.

    No link is followed: each entry is changed in its opened directory. The home itself comes last,
    so that the next run sees and repeats an interrupted change. The kernel clears set-user-id and
    set-group-id bits of changed files.
    """
    top = os.open(files.inside(home), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    former = os.fstat(top)

    def changed(info: os.stat_result) -> tuple[int, int]:
        uid = new[0] if info.st_uid == former.st_uid else -1
        return uid, new[1] if info.st_gid == former.st_gid else -1

    # A directory is open until all in it is done: at most as many as there are levels.
    levels = [(top, iter(os.listdir(top)))]
    try:
        while levels:
            here, names = levels[-1]
            name = next(names, None)
            if name is None:
                os.fchown(here, *changed(os.fstat(here)))
                os.fsync(here)
                os.close(levels.pop()[0])
                continue
            info = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                inner = os.open(name, flags, dir_fd=here)
                levels.append((inner, iter(os.listdir(inner))))
            else:
                os.chown(name, *changed(info), dir_fd=here, follow_symlinks=False)
    finally:
        for handle, _names in levels:
            os.close(handle)


def give_home(home: str, user: str) -> None:
    """Creates the home if missing, and gives it to its person."""
    if owner_of(home) is None:
        os.mkdir(files.inside(home), 0o700)
    if owner_of(home) != user and os.geteuid() == 0:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        hand_over(home, traits.numbers(user))
