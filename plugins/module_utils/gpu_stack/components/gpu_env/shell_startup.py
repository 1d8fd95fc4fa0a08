"""Our lines in a user's ~/.bashrc: whether they are there, and how they are put there as that user.

The home is the user's: a link there would make root write into a file of root's, a backup's name
can be guessed, and a named pipe would hold the run for ever. So for each user a process of its own
becomes that user for good before it touches anything, and the one that stays root only waits, for
so long and no longer. What is in the way of one user's lines is told and stops nobody's run.

The lines stand between two markers at the top of the file. A link is followed, as into a repository
of dotfiles, and the file that it leads to is replaced by one written beside it, after a copy of the
old one.
"""

import errno
import json
import os
import stat
import time

from ...host import regular

PROFILE = "/etc/profile.d/provision-gpu.sh"
LINE = ". " + PROFILE
BEGIN = "# BEGIN provision gpu_env"
END = "# END provision gpu_env"
BLOCK = "{0}\n{1}\n{2}\n".format(BEGIN, LINE, END)
NO_USER = "there is no such user"
LIMIT = 1024 * 1024
# Seconds for one user; a home whose server is gone answers never.
PATIENCE = 30.0

_MARKERS = (BEGIN.encode("ascii"), END.encode("ascii"))


class LeftError(Exception):
    """The file is left alone; the message says why, as the end of a sentence about it."""


def account(context, user):
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


def between_markers(text):
    """What stands between our markers; None without them."""
    lines = (text or "").splitlines()
    if BEGIN not in lines or END not in lines:
        return None
    start, end = lines.index(BEGIN), lines.index(END)
    return "".join(line + "\n" for line in lines[start + 1 : end]) if start < end else None


def bashrc(context, user):
    """(text between our markers, fault) of ~user/.bashrc; `fault`: why a run leaves it alone.

    The file is the user's: it is read as that user, and nothing in its place may stop a run.
    """
    entry = account(context, user)
    if entry is None:
        return None, NO_USER
    text, fault = context.read_own(entry[0], entry[1] + "/.bashrc")
    return between_markers(text), fault


# the text


def without(text):
    """The text without our block, and without a marker that has lost its counterpart."""
    begin, end = _MARKERS
    lines = text.splitlines(True)
    bare = [line.rstrip(b"\r\n") for line in lines]
    while begin in bare and end in bare[bare.index(begin) :]:
        first = bare.index(begin)
        last = bare.index(end, first)
        del lines[first : last + 1], bare[first : last + 1]
    return b"".join(line for line in lines if line.rstrip(b"\r\n") not in _MARKERS)


def wanted(text, present):
    """The text with our block at its top, or with none.

    At the top: further down, most ~/.bashrc have ended for shells without a terminal. A block that
    says the right thing stays where it is.
    """
    if not present:
        return without(text)
    block = BLOCK.encode("ascii")
    if all(text.count(marker) == 1 for marker in _MARKERS) and block in text:
        return text
    return block + without(text)


# the file, opened by a process that is its user


def _read(path):
    """(content, stat) of a regular file, (b"", None) where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return b"", None
        raise LeftError("can't be read ({0})".format(error.strerror)) from error
    with os.fdopen(handle, "rb") as stream:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise LeftError("is not a regular file")
        text = stream.read(LIMIT + 1)
    if len(text) > LIMIT:
        raise LeftError("is larger than {0} KiB".format(LIMIT // 1024))
    return text, info


def _create(path, text, mode):
    """A new file of this name, on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)


def _replace(path, text, old, info):
    """The new text in place of the old, which is kept beside it; the whole file or the old one."""
    stamp = "{0}.provision-{1}.{2}".format(
        path, time.strftime("%Y%m%dT%H%M%S", time.gmtime()), os.getpid()
    )
    if info is not None:
        _create(stamp + "~", old, stat.S_IMODE(info.st_mode))
    new = stamp + ".new"
    _create(new, text, 0o644 if info is None else stat.S_IMODE(info.st_mode))
    try:
        if info is not None:
            import shutil  # not for the look, that imports this file on every host

            shutil.copystat(path, new)
            os.utime(new)
        now = _read(path)
        if now[0] != old or (now[1] is None) != (info is None):
            raise LeftError("was being changed by somebody else")
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def edit(path, present, check):
    """The path of the file that was (or would be) changed; None where nothing is to change."""
    real = os.path.realpath(path)
    try:
        old, info = _read(real)
        text = wanted(old, present)
        if text == old or (info is None and not present):
            return None
        if not check:
            _replace(real, text, old, info)
    except OSError as error:
        raise LeftError("can't be replaced in {0} ({1})".format(
            os.path.dirname(real), error.strerror)) from error  # fmt: skip
    return real


def _answer(user, home, present, check):
    try:
        regular.become(*user)
        os.chdir("/")
        os.umask(0o022)
        answer = {"changed": edit(os.path.join(home, ".bashrc"), present, check)}
    except LeftError as error:
        answer = {"left": str(error)}
    except Exception as error:
        answer = {"left": "could not be written: {0}".format(error)}
    return json.dumps(answer).encode("utf-8")


def as_user(context, user, present, check):
    """{"changed": path or None} or {"left": why}, done in a process that is that user."""
    entry = account(context, user)
    if entry is None:
        return {"left": NO_USER}
    data = regular.apart(lambda: _answer(*entry, present, check), 65536, PATIENCE)
    if not data:
        return {"left": "could not be written within {0:.0f} s".format(PATIENCE)}
    return json.loads(data.decode("utf-8"))


def write(context, users, present, check):
    """{files, left}: paths that were (or would be) changed, and {user: why theirs was left alone}.

    `present`: whether our lines are wished; `check`: nothing is changed.
    """
    answers = {user: as_user(context, user, present, check) for user in users}
    return {
        "files": [one["changed"] for one in answers.values() if one.get("changed")],
        "left": {user: one["left"] for user, one in answers.items() if one.get("left")},
    }
