"""Replaces and removes whole environments: a new one takes the old one's place, or nothing changes.

A new environment is built in a directory beside, where nobody runs it, and replaces the old one in
one step when it is complete: what fails or is killed before that leaves the old one as it was. An
environment to which somebody added files is moved aside, for they may be the only copy. No process
is ever ended; one that uses an environment is a refusal.
"""

from __future__ import annotations

import csv
import ctypes
import errno
import io
import os
import re
import shutil
import stat
from collections.abc import Collection
from typing import Any

from ...host import code_users, directory_entries
from ...host.context import Context
from ...host.directory_entries import flush
from .. import tensorflow
from . import venv_use
from .venv_files import content, digest, foreign, listed, problems, records, sites
from .venv_trust import BUILDING, READY, REMOVING, left_in

MARKER = tensorflow.MARKER
CURRENT = "current"
KEPT = re.compile(r"\.save(\.[0-9]+)?$")


class RefusedError(Exception):
    """The request was refused; str() says why and what to do."""


def put_away(context: Context, path: str, name: str) -> str | None:
    """Removes an environment, or moves it to NAME.save where somebody added files; the new path."""
    if os.path.isdir(path) and not os.path.islink(path) and not foreign(path):
        # Renamed first: no program finds half an environment under its name.
        removing = os.path.join(os.path.dirname(path), REMOVING + os.path.basename(name))
        if os.path.lexists(removing):
            shutil.rmtree(removing)
        os.rename(path, removing)
        shutil.rmtree(removing)
        return None
    kept = venv_use.save_name(context, name)
    os.rename(path, kept)
    # Without its marker no run removes it.
    if os.path.lexists(os.path.join(kept, MARKER)):
        os.unlink(os.path.join(kept, MARKER))
    return kept


def clean(context: Context, root: str) -> bool:
    """Removes the leftovers of killed runs; whether there were any."""
    names = left_in(context, root)
    for name in names:
        path = os.path.join(root, name)
        if name.startswith(READY):
            put_away(context, path, os.path.join(root, name[len(READY) :]))
        else:
            directory_entries.remove(path)
    return bool(names)


def rename_texts(place: str, old: str, new: str) -> None:
    """Replaces the path `old` by `new` in the texts of `place`, and updates the wheels' RECORDs.

    `venv` and pip write the environment's path into its programs, and its name into the prompt;
    compiled files take theirs from where they are imported.
    """
    entries = {}
    tops = [os.path.join(place, name) for name in ("bin", "share", "etc", "pyvenv.cfg")]
    for top in tops:
        walked = os.walk(top) if os.path.isdir(top) else [(place, [], [os.path.basename(top)])]
        for directory, _directories, names in walked:
            for path in (os.path.join(directory, name) for name in names):
                data = _renamed(path, old, new)
                if data is not None:
                    entries[path] = ["sha256=" + digest(data), str(len(data))]
    for site in sites(place):
        for path, rows in records(site):
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            changed = False
            for row in rows:
                entry = entries.get(os.path.normpath(os.path.join(site, row[0])))
                changed = changed or entry is not None
                writer.writerow(row if entry is None else [row[0], *entry])
            if changed:
                replace(path, text.getvalue().encode())


def _renamed(path: str, old: str, new: str) -> bytes | None:
    """Replaces the old path and its last name in a file; its new content, None where neither is."""
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


def replace(path: str, data: bytes) -> None:
    """Writes a file atomically, with the old one's mode."""
    new = path + ".provision"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(new, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644)
    os.replace(new, path)


def put_link(path: str, target: str) -> None:
    """Replaces `path` by a link to `target`, atomically."""
    new = path + ".provision"
    if os.path.lexists(new):
        os.unlink(new)
    os.symlink(target, new)
    os.replace(new, path)


def write_mark(venv: str, mark: str) -> None:
    """Writes the marker, newer than every file of the environment: so later changes show."""
    flush(venv)
    replace(os.path.join(venv, MARKER), (mark + "\n").encode())
    os.utime(os.path.join(venv, MARKER))
    directory_entries.sync(venv)


def exchange(first: str, second: str) -> bool:
    """Swaps two entries in one step (renameat2); False where kernel or filesystem can't."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:  # glibc before 2.28
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(first), here, os.fsencode(second), swap) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), second)


def put_in_place(ready: str, venv: str) -> None:
    """Moves `ready` to `venv`; what was at `venv` is at `ready` afterwards."""
    if not os.path.lexists(venv):
        os.rename(ready, venv)
    elif not exchange(ready, venv):
        # In two steps: a run that is killed between them leaves neither; the next one builds it.
        between = ready + ".old"
        try:
            os.rename(venv, between)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a lower layer of an overlay
                raise
            shutil.move(venv, between)
        os.rename(ready, venv)
        os.rename(between, ready)
    directory_entries.sync(os.path.dirname(venv))


def prepare(root: str, name: str) -> None:
    """Checks a built environment, and has its texts name its place. Twice does no harm."""
    built, venv = os.path.join(root, BUILDING + name), os.path.join(root, name)
    broken = problems(built)
    if broken:
        raise RefusedError(f"the new environment is incomplete: {', '.join(broken[:5])}")
    rename_texts(built, built, venv)


def prepared(root: str, name: str) -> bool:
    """Whether it is prepared and on the disk; `finish` meets and tells what went wrong."""
    try:
        prepare(root, name)
        flush(os.path.join(root, BUILDING + name))
    except (RefusedError, OSError):
        return False
    return True


def finish(
    context: Context, root: str, name: str, mark: str, is_prepared: bool = False
) -> str | None:
    """Puts the built environment in its place; the path where the old one is kept, or None.

    `is_prepared`: by `prepared`, in the background.
    """
    built, venv = os.path.join(root, BUILDING + name), os.path.join(root, name)
    ready = os.path.join(root, READY + name)
    if not is_prepared:
        prepare(root, name)
    _refuse_in_use(context, venv, [venv] if os.path.lexists(venv) else [])
    write_mark(built, mark)
    os.rename(built, ready)
    put_in_place(ready, venv)
    return put_away(context, ready, venv) if os.path.lexists(ready) else None


def _refuse_in_use(context: Context, place: str, venvs: list[str]) -> None:
    users = code_users.names_of_users(context, venvs)
    if users:
        raise RefusedError(
            f"{place} is in use by {', '.join(users[:5])}: nothing of it was touched, and none is "
            "ever ended for you."
        )


# removal


def marked(root: str, staying: Collection[str] = ()) -> list[str]:
    """Paths of the environments below `root` that have the marker."""
    paths = [os.path.join(root, name) for name in listed(root) if name not in staying]
    return [
        path for path in paths
        if not os.path.islink(path) and os.path.isfile(os.path.join(path, MARKER))
        and not os.path.basename(path).startswith((BUILDING, READY, REMOVING))
        and not KEPT.search(path)
    ]  # fmt: skip


def remove(context: Context, root: str, *staying: str) -> dict[str, Any]:
    """Removes all environments below `root` that have the marker but these, and their link;
    {changed, removed, kept}.

    A refusal where somebody uses one of them.
    """
    result: dict[str, Any] = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    venvs = marked(root, staying)
    _refuse_in_use(context, root, venvs)
    result["changed"] = clean(context, root)
    if not staying and _leads_to_ours(root, venvs):
        os.unlink(os.path.join(root, CURRENT))
        result["changed"] = True
    for venv in venvs:
        kept = put_away(context, venv, venv)
        result["kept" if kept else "removed"].append(kept or venv)
        result["changed"] = True
    # A link that somebody made, to keep them on another disk, stays.
    if not listed(root) and not os.path.islink(root):
        os.rmdir(root)
    return result


def would_remove(context: Context, root: str, *staying: str) -> bool:
    """Whether `remove` has something to remove."""
    venvs = marked(root, staying)
    return bool(venvs or left_in(context, root) or (not staying and _leads_to_ours(root, venvs)))


def _leads_to_ours(root: str, venvs: list[str]) -> bool:
    """Whether `current` leads to one of these environments, or nowhere."""
    current = os.path.join(root, CURRENT)
    if not os.path.islink(current) or "/" in os.readlink(current):
        return False
    place = os.path.join(root, os.readlink(current))
    return place in venvs or not os.path.exists(place)
