"""Writes a daemon's configuration so that it is whole at every moment, and keeps what was there."""

import os
import shutil
import tempfile

from ...host.kept_names import free_name


class RefusedError(Exception):
    """What was asked for is not done; the text says why."""


def inside(context, path):
    """The path on this machine's disk of a path of the host."""
    return os.path.join(context.root, path.lstrip("/"))


def text(context, path):
    """A file's text; None where there is none. OSError or UnicodeDecodeError of any other."""
    try:
        with open(inside(context, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def replace(path, content, like=None, place=None):
    """The whole file or the old one, with the owner and mode of `like`, its status before.

    It is made in `place`, a directory of the same file system.
    """
    handle, new = tempfile.mkstemp(dir=place or os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644 if like is None else like.st_mode & 0o7777)
        if like is not None:
            os.chown(new, like.st_uid, like.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def keep(path, place=None):
    """(where a copy of the file is now, the file's status); (None, None) where there is none.

    The copy lies in `place`, by default beside the file, under a name that nothing has.
    """
    if not os.path.exists(path):
        return None, None
    like = os.stat(path)
    saved = free_name(os.path.join(place or os.path.dirname(path), os.path.basename(path)))
    shutil.copy2(path, saved)
    os.chown(saved, like.st_uid, like.st_gid)
    return saved, like


def put_back(path, saved, place=None):
    """The file that was kept under `saved` in its place again, or none for None."""
    if saved:
        with open(saved, encoding="utf-8") as file:
            replace(path, file.read(), os.stat(saved), place)
    elif os.path.exists(path):
        os.unlink(path)


def note_restart(context, note, running):
    """Note that the daemon which runs now, "PID START" or None, has to be restarted."""
    if running is not None:
        path = inside(context, note)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replace(path, running + "\n")
