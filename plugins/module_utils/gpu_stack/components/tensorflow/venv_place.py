"""Environments as wholes: a new one takes the place of the old one, or nothing does.

A new environment is built in a directory beside, where nobody runs it, and takes the place of the
old one in one step when it is whole: what fails or is killed before that leaves the old one as it
was. An environment into which somebody has put more than the locked wheels is moved aside, for
nobody else may have a copy. No process is ever ended; one that uses an environment is a refusal.
"""

import csv
import ctypes
import errno
import io
import os
import re
import shutil
import stat
import subprocess

from .. import tensorflow
from . import venv_use
from .venv_files import content, digest, lacking, listed, records, sites, strange
from .venv_trust import BUILDING, READY, REMOVING, left_in

MARKER = tensorflow.MARKER
CURRENT = "current"
KEPT = re.compile(r"\.save(\.[0-9]+)?$")
FLUSH = 900  # seconds for a slow disk to write what is not there yet


class RefusedError(Exception):
    """str() is what a person reads."""


def put_away(context, path, name):
    """Remove an environment, or keep it beside `name` where it has more in it; where it is kept."""
    if os.path.isdir(path) and not os.path.islink(path) and not strange(path):
        # Nobody finds half an environment under its name.
        gone = os.path.join(os.path.dirname(path), REMOVING + os.path.basename(name))
        if os.path.lexists(gone):
            shutil.rmtree(gone)
        os.rename(path, gone)
        shutil.rmtree(gone)
        return None
    kept = venv_use.aside(context, name)
    os.rename(path, kept)
    # Without its mark it is nobody's to remove.
    if os.path.lexists(os.path.join(kept, MARKER)):
        os.unlink(os.path.join(kept, MARKER))
    return kept


def clean(context, root):
    """Take away what runs that were killed have left; whether there was any."""
    left = left_in(context, root)
    for one in left:
        path = os.path.join(root, one)
        if one.startswith(READY):
            put_away(context, path, os.path.join(root, one[len(READY) :]))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return bool(left)


def rename_texts(place, old, new):
    """Write `new` for `old` in the texts of `place`, and the records of wheels accordingly.

    `venv` and pip write the environment's path into its programs, and its name into the prompt;
    compiled files take theirs from where they are imported.
    """
    known = {}
    tops = [os.path.join(place, name) for name in ("bin", "share", "etc", "pyvenv.cfg")]
    for top in tops:
        walked = os.walk(top) if os.path.isdir(top) else [(place, [], [os.path.basename(top)])]
        for directory, _directories, names in walked:
            for path in (os.path.join(directory, name) for name in names):
                data = _renamed(path, old, new)
                if data is not None:
                    known[path] = ["sha256=" + digest(data), str(len(data))]
    for site in sites(place):
        for path, rows in records(site):
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            changed = False
            for row in rows:
                told = known.get(os.path.normpath(os.path.join(site, row[0])))
                changed = changed or told is not None
                writer.writerow(row if told is None else [row[0], *told])
            if changed:
                replace(path, text.getvalue().encode())


def _renamed(path, old, new):
    """The file's new content where it held the old path or its last name; else None."""
    data = None if os.path.islink(path) else content(path)
    if data is None or b"\0" in data:
        return None
    changed = data.replace(os.fsencode(old), os.fsencode(new))
    changed = changed.replace(
        os.fsencode(os.path.basename(old)), os.fsencode(os.path.basename(new))
    )
    if changed == data:
        return None
    replace(path, changed)
    return changed


def replace(path, data):
    """The whole file or the old one, with its mode."""
    new = path + ".provision"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(new, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644)
    os.replace(new, path)


def put_link(path, target):
    """A link to `target`, or what was at `path` before."""
    new = path + ".provision"
    if os.path.lexists(new):
        os.unlink(new)
    os.symlink(target, new)
    os.replace(new, path)


def flush(path):
    """Everything of the filesystem is on its disk: a mark never says more than the disk holds."""
    try:
        subprocess.run(["sync", "--file-system", path], check=True, timeout=FLUSH)
    except subprocess.TimeoutExpired as error:
        words = "the disk of {0} did not take what was written within {1} s"
        raise RefusedError(words.format(path, FLUSH)) from error


def write_mark(venv, mark):
    """The mark, newer than every file of the environment: what is newer was touched later."""
    flush(venv)
    replace(os.path.join(venv, MARKER), (mark + "\n").encode())
    os.utime(os.path.join(venv, MARKER))
    sync_directory(venv)


def sync_directory(path):
    """The names in it are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one, other):
    """Swap two entries in one step (renameat2); False where kernel or filesystem can't."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:  # glibc before 2.28
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), other)


def step(ready, venv):
    """`ready` takes the place of `venv`, which is at `ready` afterwards."""
    if not os.path.lexists(venv):
        os.rename(ready, venv)
    elif not exchange(ready, venv):
        # In two steps: who is killed between them finds neither, and the next run makes it anew.
        between = ready + ".old"
        try:
            os.rename(venv, between)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a lower layer of an overlay
                raise
            shutil.move(venv, between)
        os.rename(ready, venv)
        os.rename(between, ready)
    sync_directory(os.path.dirname(venv))


def finish(context, root, name, mark):
    """Put the built environment in its place; where the former one is kept, or None."""
    built, venv = os.path.join(root, BUILDING + name), os.path.join(root, name)
    ready = os.path.join(root, READY + name)
    problems = lacking(built)
    if problems:
        raise RefusedError("what was built is not whole: {0}".format(", ".join(problems[:5])))
    _refuse_in_use(context, venv, [venv] if os.path.lexists(venv) else [])
    rename_texts(built, built, venv)
    write_mark(built, mark)
    os.rename(built, ready)
    step(ready, venv)
    return put_away(context, ready, venv) if os.path.lexists(ready) else None


def _refuse_in_use(context, place, venvs):
    people = venv_use.names_of_users(context, venvs)
    if people:
        words = "{0} is in use by {1}: nothing of it was touched, and none is ever ended for you."
        raise RefusedError(words.format(place, ", ".join(people[:5])))


# away with them


def ours(root, staying=()):
    """Paths of the environments below `root` that have the mark."""
    paths = [os.path.join(root, name) for name in listed(root) if name not in staying]
    return [
        path for path in paths
        if not os.path.islink(path) and os.path.isfile(os.path.join(path, MARKER))
        and not os.path.basename(path).startswith((BUILDING, READY, REMOVING))
        and not KEPT.search(path)
    ]  # fmt: skip


def remove(context, root, *staying):
    """{changed, removed, kept}: all environments below `root` that have the mark, and their link.

    A refusal where somebody uses one of them.
    """
    result = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    venvs = ours(root, staying)
    _refuse_in_use(context, root, venvs)
    result["changed"] = clean(context, root)
    if not staying and _leads_to_ours(root, venvs):
        os.unlink(os.path.join(root, CURRENT))
        result["changed"] = True
    for venv in venvs:
        kept = put_away(context, venv, venv)
        result["kept" if kept else "removed"].append(kept or venv)
        result["changed"] = True
    # The link of somebody who keeps them on another disk is theirs.
    if not listed(root) and not os.path.islink(root):
        os.rmdir(root)
    return result


def would_remove(context, root, *staying):
    """Whether `remove` finds anything."""
    venvs = ours(root, staying)
    return bool(venvs or left_in(context, root) or (not staying and _leads_to_ours(root, venvs)))


def _leads_to_ours(root, venvs):
    current = os.path.join(root, CURRENT)
    if not os.path.islink(current) or "/" in os.readlink(current):
        return False
    place = os.path.join(root, os.readlink(current))
    return place in venvs or not os.path.exists(place)
