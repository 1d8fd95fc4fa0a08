"""The folder that a bundle is written to: nobody else's, held by one run, and without ways out.

It may lie on a stick that others have had in hand. A link in it would lead what is written, perhaps
as root, to somebody's files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from provision import inputs
from provision.bundle import manifest as manifests
from provision.errors import InputError, MachineError
from provision.upstream import download

# What the files begin with by which a bundle is known: manifest.json is the name of many.
_MARKS = {manifests.NAME: b'{\n"archives": ', manifests.UNFINISHED: b"sha256:"}


def check_target(folder: Path, since: Path | None = None) -> None:
    """InputError where the folder has something else than a bundle, finished or not.

    With `since` also where it has a whole bundle: what a delta lacks would be removed from it.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError("a bundle is a folder", where=str(folder), got="a file")
    # A first run that was ended before its first file.
    first = download.begun(folder / manifests.UNFINISHED).name
    if not folder.is_dir() or not {*os.listdir(folder)} - {first}:
        return
    ours = {name for name, mark in _MARKS.items() if _begins(folder / name, mark)}
    if not ours:
        raise InputError(
            "the folder has files of somebody else's, and a bundle takes one of its own",
            where=str(folder),
            got=", ".join(sorted(os.listdir(folder))[:5]),
            expected="a new folder, or one with a bundle",
        )
    whole = manifests.NAME in ours and not (folder / manifests.DELTA).exists()
    if since is not None and (whole or (since.exists() and folder.samefile(since))):
        raise InputError(
            "a delta takes a folder of its own: in a bundle it would leave only what is new",
            where=str(folder),
            got="a bundle",
            expected="a new folder, or one with a delta",
            hint="without --since the bundle is brought up to date where it is",
        )


def _begins(path: Path, mark: bytes) -> bool:
    try:
        return inputs.read(path).startswith(mark)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds a folder for one run, and makes it if need be.

    MachineError where another run writes there: each would remove the other's files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError.of(error, "the bundle cannot be written", folder) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MachineError(
                "another run is writing this bundle",
                where=str(folder),
                hint="wait for it, or take another folder",
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def make_safe(folder: Path) -> None:
    """Removes begun files through which something else would be written.

    InputError where a link is in the place of a folder.
    """
    for path in found(folder):
        place = folder / path
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode) and place.is_dir():
            raise InputError(
                "a link is in the place of a bundle's own folder",
                where=str(place),
                got=f"a link to {os.readlink(place)}",
                expected="a folder",
                hint="remove the link, or mount the other place there",
            )
        if download.is_begun(place.name) and not (
            stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        ):
            place.unlink()


def found(folder: Path) -> list[str]:
    """The paths of all that is in a bundle and no folder, sorted; links are not followed.

    OSError where a folder can't be read: what is in it would go unseen.
    """
    paths = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                path = f"{inside}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    # A file system's own folder, at its root.
                    waiting += [f"{path}/"] if path != "lost+found" else []
                else:
                    paths.append(path)
    return sorted(paths)
