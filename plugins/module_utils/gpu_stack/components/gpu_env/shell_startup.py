"""Our block in a user's ~/.bashrc: reads it, and writes it as that user.

The home is the user's: a link there could make root overwrite a file of root's, a backup's name can
be guessed, and a named pipe would block the run for ever. So a child process becomes the user for
good before it touches anything, and the process that stays root only waits, with a time limit. A
file that can't be changed is reported, and the run goes on.

The block stands between two markers at the top of the file. A link is followed, as into a
repository of dotfiles, and its target is replaced by a file written beside it, after a copy of the
old one.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time

from ...host import regular
from ...host.context import Context
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PROFILE = "/etc/profile.d/provision-gpu.sh"
LINE = ". " + PROFILE
BEGIN = "# BEGIN provision gpu_env"
END = "# END provision gpu_env"
BLOCK = "{0}\n{1}\n{2}\n".format(BEGIN, LINE, END)
NO_USER = "there is no such user"
LIMIT = 1024 * 1024
# Seconds for one user; a home directory whose server is down never answers.
PATIENCE = 30.0

_MARKERS = (BEGIN.encode("ascii"), END.encode("ascii"))


class LeftError(Exception):
    """The file is left alone; the message says why, as the end of a sentence about it."""


def account(context: Context, user: str) -> tuple[tuple[str, int, int], str] | None:
    """((name, uid, gid), home) of a user of this host; None where there is none."""
    if context.root == "/":
        import pwd  # knows those of a directory service too

        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            return None
        return (entry.pw_name, entry.pw_uid, entry.pw_gid), entry.pw_dir
    for line in (context.read("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if fields[0] == user and len(fields) > 6 and fields[2].isdigit() and fields[3].isdigit():
            return (user, int(fields[2]), int(fields[3])), fields[5]
    return None


# the look


def between_markers(text: str | None) -> str | None:
    """The lines between our markers; None without them."""
    lines = (text or "").splitlines()
    if BEGIN not in lines or END not in lines:
        return None
    start, end = lines.index(BEGIN), lines.index(END)
    return "".join(line + "\n" for line in lines[start + 1 : end]) if start < end else None


def bashrc(context: Context, user: str) -> tuple[str | None, str | None]:
    """(text between our markers, fault) of ~user/.bashrc; `fault`: why a run leaves it alone.

    It is read as that user, within a time limit, whatever is in its place.
    """
    entry = account(context, user)
    if entry is None:
        return None, NO_USER
    text, fault = context.read_own(entry[0], entry[1] + "/.bashrc")
    return between_markers(text), fault


# the text


def without_block(text: bytes) -> bytes:
    """The text without our block, and without a marker that has lost its counterpart."""
    begin, end = _MARKERS
    lines = text.splitlines(True)
    bare = [line.rstrip(b"\r\n") for line in lines]
    while begin in bare and end in bare[bare.index(begin) :]:
        first = bare.index(begin)
        last = bare.index(end, first)
        del lines[first : last + 1], bare[first : last + 1]
    return b"".join(line for line in lines if line.rstrip(b"\r\n") not in _MARKERS)


def with_block(text: bytes) -> bytes:
    """The text with our block at its top.

    At the top: further down, most ~/.bashrc have returned for shells without a terminal. A block
    with the right lines stays where it is.
    """
    block = BLOCK.encode("ascii")
    if all(text.count(marker) == 1 for marker in _MARKERS) and block in text:
        return text
    return block + without_block(text)


# the file, opened by a process that is its user


def _read(path: str) -> tuple[bytes, os.stat_result | None]:
    """(content, stat) of a regular file, (b"", None) where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return b"", None
        raise LeftError(f"can't be read ({error.strerror})") from error
    with os.fdopen(handle, "rb") as stream:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise LeftError("is not a regular file")
        text = stream.read(LIMIT + 1)
    if len(text) > LIMIT:
        raise LeftError(f"is larger than {LIMIT // 1024} KiB")
    return text, info


def _create(path: str, text: bytes, mode: int) -> None:
    """Writes a new file; it is on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)


def _replace(path: str, text: bytes, old: bytes, info: os.stat_result | None) -> None:
    """Replaces a file atomically, and keeps a copy of the old one beside it."""
    stamp = f"{path}.provision-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.{os.getpid()}"
    if info is not None:
        _create(stamp + "~", old, stat.S_IMODE(info.st_mode))
    new = stamp + ".new"
    _create(new, text, 0o644 if info is None else stat.S_IMODE(info.st_mode))
    try:
        if info is not None:
            import shutil  # not at the top: the look imports this file on every host

            shutil.copystat(path, new)
            os.utime(new)
        current, current_info = _read(path)
        if current != old or (current_info is None) != (info is None):
            raise LeftError("was being changed by somebody else")
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def edit(path: str, present: bool, check: bool) -> str | None:
    """Adds or removes our block; the path that was (or would be) changed, or None."""
    real = os.path.realpath(path)
    try:
        old, info = _read(real)
        text = with_block(old) if present else without_block(old)
        if text == old or (info is None and not present):
            return None
        if not check:
            _replace(real, text, old, info)
    except OSError as error:
        place = os.path.dirname(real)
        raise LeftError(f"can't be replaced in {place} ({error.strerror})") from error
    return real


def _edit_as(user: tuple[str, int, int], home: str, present: bool, check: bool) -> bytes:
    """Becomes the user for good, and edits their file; the result of `as_user` as JSON."""
    result: dict[str, Any] = {}
    try:
        regular.become(*user)
        os.chdir("/")
        os.umask(0o022)
        result["changed"] = edit(os.path.join(home, ".bashrc"), present, check)
    except LeftError as error:
        result["left"] = str(error)
    except Exception as error:
        result["left"] = f"could not be written: {error}"
    return json.dumps(result).encode("utf-8")


def as_user(context: Context, user: str, present: bool, check: bool) -> dict[str, Any]:
    """Edits one user's file in a process of that user; {changed: path or None} or {left: why}."""
    entry = account(context, user)
    if entry is None:
        return {"left": NO_USER}
    owner, home = entry
    data = regular.apart(lambda: _edit_as(owner, home, present, check), 65536, PATIENCE)
    if not data:
        return {"left": f"could not be written within {PATIENCE:.0f} s"}
    return dict(json.loads(data.decode("utf-8")))


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `shell_startup`."""
    present = params["state"] == "present"
    result = write(Context(), params["users"], present, check_mode)
    # The rest of the file is private to its user, and not in the diff.
    before, after = ("", BLOCK) if present else (BLOCK, "")
    diff = [{"before_header": path, "after_header": path, "before": before, "after": after}
            for path in result["files"]]  # fmt: skip
    return dict(result, changed=bool(diff), diff=diff)


def write(context: Context, users: Iterable[str], present: bool, check: bool) -> dict[str, Any]:
    """{files, left}: paths that were (or would be) changed, and {user: why theirs was left alone}.

    `present`: whether our block is to be there; `check`: nothing is changed.
    """
    results = {user: as_user(context, user, present, check) for user in users}
    return {
        "files": [result["changed"] for result in results.values() if result.get("changed")],
        "left": {user: result["left"] for user, result in results.items() if result.get("left")},
    }
