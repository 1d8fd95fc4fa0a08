#!/usr/bin/env python3
"""Puts the environment's lines into a user's ~/.bashrc, or takes them out, as that user.

The home is the user's: a link there would make root write into a file of root's, a backup's name
can be guessed, and a named pipe would hold the run for ever. So for each user a process of its own
becomes that user for good before it touches anything, and the one that stays root only waits, for
so long and no longer. What is in the way of one user's lines is told and stops nobody's run.

Runs on the host with its own Python (3.7 or newer), standard library only, and is also imported by
tests.

    bashrc.py [--check] [--absent] LINE USER...

LINE stands between two markers at the top of the file. A link is followed, as into a repository of
dotfiles, and the file that it leads to is replaced by one written beside it, after a copy of the
old one. Output: {"changed": [path...], "left": {user: why}}.
"""

import errno
import json
import os
import pwd
import select
import shutil
import signal
import stat
import sys
import time

BEGIN = b"# BEGIN provision gpu_env"
END = b"# END provision gpu_env"
LIMIT = 1024 * 1024
# Seconds for one user; a home whose server is gone answers never.
PATIENCE = 30.0


class LeftError(Exception):
    """The file is left alone; the message says why, as the end of a sentence about it."""


def without(text):
    """The text without our block, and without a marker that has lost its counterpart."""
    lines = text.splitlines(True)
    bare = [line.rstrip(b"\r\n") for line in lines]
    while BEGIN in bare and END in bare[bare.index(BEGIN) :]:
        start = bare.index(BEGIN)
        end = bare.index(END, start)
        del lines[start : end + 1], bare[start : end + 1]
    return b"".join(line for line in lines if line.rstrip(b"\r\n") not in (BEGIN, END))


def wanted(text, line):
    """The text with our block at its top, or with none where `line` is None.

    At the top: further down, most ~/.bashrc have ended for shells without a terminal. A block that
    says the right thing stays where it is.
    """
    if line is None:
        return without(text)
    block = BEGIN + b"\n" + line.encode("utf-8") + b"\n" + END + b"\n"
    if text.count(BEGIN) == 1 and text.count(END) == 1 and block in text:
        return text
    return block + without(text)


def read(path):
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


def create(path, text, mode):
    """A new file of this name, on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)


def replace(path, text, old, info):
    """The new text in place of the old, which is kept beside it; the whole file or the old one."""
    stamp = "{0}.provision-{1}.{2}".format(
        path, time.strftime("%Y%m%dT%H%M%S", time.gmtime()), os.getpid()
    )
    if info is not None:
        create(stamp + "~", old, stat.S_IMODE(info.st_mode))
    new = stamp + ".new"
    create(new, text, 0o644 if info is None else stat.S_IMODE(info.st_mode))
    try:
        if info is not None:
            shutil.copystat(path, new)
            os.utime(new)
        now = read(path)
        if now[0] != old or (now[1] is None) != (info is None):
            raise LeftError("was being changed by somebody else")
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def edit(path, line, check):
    """The path of the file that was (or would be) changed; None where nothing is to change."""
    real = os.path.realpath(path)
    try:
        old, info = read(real)
        text = wanted(old, line)
        if text == old or (info is None and line is None):
            return None
        if not check:
            replace(real, text, old, info)
    except OSError as error:
        raise LeftError("can't be replaced in {0} ({1})".format(
            os.path.dirname(real), error.strerror)) from error  # fmt: skip
    return real


def as_user(user, line, check):
    """{"changed": path or None} or {"left": why}, done in a process that is that user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return {"left": "there is no such user"}
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Left behind, it must not hold what the run waits for.
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.close(ours)
            os.write(theirs, json.dumps(_child(entry, line, check)).encode("utf-8"))
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    ready = select.select([ours], [], [], PATIENCE)[0]
    data = os.read(ours, 65536) if ready else b""
    os.close(ours)
    end(pid)
    if not data:
        return {"left": "could not be written within {0:.0f} s".format(PATIENCE)}
    return json.loads(data.decode("utf-8"))


def _child(entry, line, check):
    try:
        if os.geteuid() == 0 and entry.pw_uid != 0:
            os.initgroups(entry.pw_name, entry.pw_gid)
            os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
            os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
        os.chdir("/")
        os.umask(0o022)
        return {"changed": edit(os.path.join(entry.pw_dir, ".bashrc"), line, check)}
    except LeftError as error:
        return {"left": str(error)}
    except Exception as error:
        return {"left": "could not be written: {0}".format(error)}


def end(pid):
    """Kills the child; one that the kernel holds is left behind."""
    deadline = time.monotonic() + 1.0
    done = os.waitpid(pid, os.WNOHANG)[0]
    if not done:
        os.kill(pid, signal.SIGKILL)
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
        done = os.waitpid(pid, os.WNOHANG)[0]


def main(argv):
    """The program."""
    words = [word for word in argv if not word.startswith("--")]
    line = None if "--absent" in argv else words[0]
    answers = {user: as_user(user, line, "--check" in argv) for user in words[1:]}
    result = {
        "changed": [one["changed"] for one in answers.values() if one.get("changed")],
        "left": {user: one["left"] for user, one in answers.items() if one.get("left")},
    }
    sys.stdout.write(json.dumps(result, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
