"""Opens files in places where users can write, safely.

A look runs as root and also reads homes, /tmp and logs. There a plain `open` could block for ever
on a named pipe, or follow a user's link to a device or a secret. So a file is opened without
blocking, must be a regular one, and links on its path are followed only if root (or the current
user) made them. A user's own file is read as that user, in a child process that is abandoned when
it does not answer, as on a home directory whose server is down.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import time

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Callable


# More than any file of a stack or of apt that is read whole; a user can't fill root's memory.
LIMIT = 64 * 1024 * 1024
# A login file, a note: what people write by hand.
SMALL = 1024 * 1024
# Seconds until a user's own file counts as out of reach.
PATIENCE = 10.0
LINKS = 40

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


def _opened(name: str, place: int, last: bool) -> tuple[int | None, str | None]:
    """(handle, None), or (None, target) where `name` is a link that may be followed."""
    try:
        return os.open(name, _FILE if last else _PLACE, dir_fd=place), None
    except OSError as error:
        # A link gives ELOOP, and ENOTDIR where a directory is asked for.
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        info = os.stat(name, dir_fd=place, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            raise
        if info.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "a user's link is not followed", name) from None
        return None, os.readlink(name, dir_fd=place)


def open_regular(path: str) -> int:
    """A handle for reading the regular file at an absolute `path`; OSError where there is none."""
    todo = [part for part in path.split("/") if part]
    place = os.open("/", _PLACE)
    links = 0
    try:
        while todo:
            name = todo.pop(0)
            handle, target = _opened(name, place, not todo)
            if target is not None:
                links += 1
                if links > LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                todo = [part for part in target.split("/") if part] + todo
                if target.startswith("/"):
                    os.close(place)
                    place = os.open("/", _PLACE)
            elif handle is not None and todo:
                os.close(place)
                place = handle
            elif handle is not None:
                return _checked(handle, path)
    finally:
        os.close(place)
    raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _checked(handle: int, path: str) -> int:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


def read(handle: int, limit: int) -> bytes:
    """At most `limit` + 1 bytes; the last shows that the file is longer.

    Linux has no memory (ENOMEM) for who asks a file of /proc/sys for 4 MiB or more at once.
    """
    parts, left = [], limit + 1
    while left > 0:
        data = os.read(handle, min(left, 1 << 20))
        if not data:
            break
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


# a user's own file, read as that user


def read_own(
    user: tuple[str, int, int], path: str, limit: int = SMALL, patience: float = PATIENCE
) -> tuple[bytes | None, str | None]:
    """(content, fault) of a file, read as `user`; content is None where it can't be read.

    `user`: (name, uid, gid). `fault`: why its owner can't read or replace it; None if both work.
    Links are followed: what the user may not read stays unread. Without root's rights the current
    user reads the file.
    """
    data = apart(lambda: _as_user(user, path, limit), limit + 8192, patience)
    if not data:
        return None, "it could not be read within {0:.0f} s".format(patience)
    fault, _newline, rest = data.partition(b"\n")
    content = rest[1:] if rest.startswith(b"=") else None
    return content, fault.decode("utf-8", "replace") or None


def apart(work: Callable[[], bytes], limit: int, patience: float) -> bytes | None:
    """The bytes that `work()` returns in a child process, which may block for ever or die.

    None or b"" where no answer comes within `patience` seconds: the process is killed then.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Left behind, it must not hold the connection open that carries the answer.
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.close(ours)
            _send(theirs, work())
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    try:
        return _receive(ours, limit, time.monotonic() + patience)
    finally:
        os.close(ours)
        end(pid)


def become(name: str, uid: int, gid: int) -> None:
    """Drops root's rights for good; does nothing without them."""
    if os.geteuid() != 0 or uid == 0:
        return
    os.initgroups(name, gid)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _as_user(user: tuple[str, int, int], path: str, limit: int) -> bytes:
    become(*user)
    return _answer(path, limit)


def _answer(path: str, limit: int) -> bytes:
    """What the child sends: a line with the fault or nothing, and "=" and the content if any."""
    fault, data = _closed(path), None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(handle).st_mode):
            data = read(handle, limit)
            if len(data) > limit:
                fault, data = "it is larger than {0} KiB".format(limit // 1024), None
        else:
            fault = "it is not a regular file"
    except OSError as error:
        if error.errno != errno.ENOENT:
            fault = "it can't be read ({0})".format(os.strerror(error.errno or 0))
    line = (fault or "").replace("\n", "?").encode("utf-8", "replace") + b"\n"
    return line if data is None else line + b"=" + data


def _closed(path: str) -> str | None:
    """Why this user can't replace the file that `path` leads to; None where they can."""
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        return "there is no directory {0}".format(directory)
    if not os.access(directory, os.W_OK | os.X_OK):
        return "its owner can't write in {0}".format(directory)
    return None


def _send(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _receive(handle: int, limit: int, deadline: float) -> bytes | None:
    """Everything up to the end of the pipe; None where that does not come in time."""
    data = b""
    while len(data) <= limit:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            return None
        more = os.read(handle, 1 << 16)
        if not more:
            return data
        data += more
    return None


def end(pid: int, patience: float = 1.0) -> int | None:
    """Kills a child and takes its exit status; one that the kernel holds (state D) is left behind.

    Returns the status as of waitpid, or None where it was left.
    """
    deadline = time.monotonic() + patience
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        os.kill(pid, signal.SIGKILL)
    while done == 0:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
        done, status = os.waitpid(pid, os.WNOHANG)
    return status
