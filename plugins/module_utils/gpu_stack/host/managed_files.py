"""Files that a role writes whole: written, put right and taken away as root's own.

What `file_state` complains of, which is what a look complains of too, is what is written anew, and
what makes a file count as edited when it is taken away. An edited file may be somebody's work: it
is kept as NAME.save, which programs that read a directory leave alone.
"""

from __future__ import annotations

import collections
import os
import stat
import tempfile
import time

from . import directory_entries, file_state, kept_copies, owned_files
from .context import Context
from .refusal import RefusalError

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Iterable

SAVED = ".save"
FOLDER_MODE = 0o755
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Entry(
    collections.namedtuple(
        "Entry",
        "path content mode directory backup unrendered",
        defaults=(file_state.MODE, False, False, None),
    )
):
    """One file as it is wished: `content` None where it is to be absent.

    `directory`: whether the file's directory is made too, or set right. `backup`: whether a file
    with another text is kept as NAME.PID.TIME~, as Ansible names it. `unrendered`: why there is
    no content to compare the file with, None where there is.
    """

    __slots__ = ()


def entry(options: dict[str, Any]) -> Entry:
    """An Entry of a task's words: {dest, content, mode, directory, backup, wanted, unrendered}."""
    try:
        mode = int(options["mode"], 8)
    except ValueError:
        raise RefusalError(f"{options['dest']}: {options['mode']} is no mode, as 0644 is") from None
    content = options["content"] if options["wanted"] else None
    more = {name: options[name] for name in ("directory", "backup", "unrendered")}
    return Entry(options["dest"], content, mode, **more)


def _inside(context: Context, path: str) -> str:
    """Path on this machine's disk of a host's path."""
    return os.path.join(context.root, path.lstrip("/"))


def _owner(context: Context) -> tuple[int, int]:
    """User and group that own the system."""
    info = context.stat("/")
    return (info.st_uid, info.st_gid) if info is not None else (0, 0)


def _own(context: Context, handle: int) -> None:
    if os.geteuid() == 0:
        os.fchown(handle, *_owner(context))


def _difference(path: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `managed_files`; RefusalError or OSError."""
    context = Context()
    files = [entry(options) for options in params["files"]]
    if params["state"] == "absent":
        others = [*params["others"], *owned_files.paths(context, params["owned"])]
        gone = remove(context, files, others, params["emptied"], check_mode)
        states = [({"path": path, "state": "file"}, {"path": path, "state": "absent"})
                  for path in gone["removed"]]  # fmt: skip
        diff = [_difference(before["path"], before, after) for before, after in states]
        return dict(gone, changed=bool(diff), written=[], diff=diff)
    diff = clear(context, params["cleared"], check_mode)
    diff += bring(context, files, check_mode)
    diff += set_modes(context, params["modes"], params["follow"], check_mode)
    written = [difference["after_header"] for difference in diff]
    return {"changed": bool(diff), "written": written, "removed": [], "kept": [], "diff": diff}


# what is to be there


def clear(context: Context, paths: Iterable[str], dry: bool = False) -> list[dict[str, Any]]:
    """Differences of paths where something else than a regular file was; it is gone, unless `dry`.

    A directory only where it is empty. Raises RefusalError or OSError.
    """
    differences = []
    for path in paths:
        info = context.lstat(path)
        if info is None or stat.S_ISREG(info.st_mode):
            continue
        _refuse_full_directory(context, path)
        if not dry:
            make_way(context, path)
        differences.append(_difference(path, "no regular file\n", ""))
    return differences


def bring(context: Context, files: Iterable[Entry], dry: bool = False) -> list[dict[str, Any]]:
    """Differences, as of Ansible's `diff`, of the files that were not as wished.

    Now they are, unless `dry`. All are judged before the first is written. What is no file in a
    file's place is removed, a directory only where it is empty. Raises RefusalError or OSError.
    """
    work = [(file, difference) for file in files for difference in _differences(context, file)]
    for file, _difference in [] if dry else work:
        if file.content is None:
            make_way(context, file.path)
            _unlink(context, file.path)
        else:
            if file.directory:
                _make_folder(context, os.path.dirname(file.path))
            make_way(context, file.path)
            if file.backup and context.read(file.path) not in (None, file.content):
                _back_up(_inside(context, file.path))
            write(context, file.path, file.content, file.mode)
    return [difference for _file, difference in work]


def _differences(context: Context, file: Entry) -> list[dict[str, Any]]:
    """What is to be done for one file: nothing, or one difference, or one for its directory too."""
    folder = os.path.dirname(file.path)
    differences = []
    if file.content is not None:
        fault = _folder_fault(context, folder) if file.directory else None
        if fault is not None:
            differences.append(_difference(folder, fault + "\n", "mode 0755\n"))
        elif not context.isdir(folder):
            raise RefusalError(f"Destination directory {folder} does not exist")
    fault = file_state.fault(context, file.path, file.mode)
    content = None if fault == "a directory" else context.read(file.path)
    if file_state.complaint(content, file.content, fault) is None:
        return differences
    _refuse_full_directory(context, file.path)
    before, after = content or "", file.content or ""
    if before == after:
        before = (fault or "an empty file") + "\n"
        after = "" if file.content is None else f"mode {file.mode:04o}\n"
    return [*differences, _difference(file.path, before, after)]


def _folder_fault(context: Context, path: str) -> str | None:
    """Why a directory, where links lead, is not root's with mode 0755; None if it is."""
    info = context.stat(path)
    if info is None:
        return "absent"
    if not stat.S_ISDIR(info.st_mode):
        raise RefusalError(f"{path} already exists as a file")
    if (info.st_uid, info.st_gid) != _owner(context):
        return f"owned by {info.st_uid}:{info.st_gid}"
    mode = stat.S_IMODE(info.st_mode)
    return None if mode == FOLDER_MODE else f"mode {mode:04o}"


def _make_folder(context: Context, path: str) -> None:
    if _folder_fault(context, path) is None:
        return
    os.makedirs(_inside(context, path), mode=FOLDER_MODE, exist_ok=True)
    handle = os.open(_inside(context, path), _OPEN | os.O_DIRECTORY)
    try:
        _own(context, handle)
        os.fchmod(handle, FOLDER_MODE)
    finally:
        os.close(handle)


def _refuse_full_directory(context: Context, path: str) -> None:
    info = context.lstat(path)
    if info is not None and stat.S_ISDIR(info.st_mode) and os.listdir(_inside(context, path)):
        raise RefusalError(f"cannot remove '{path}': Directory not empty")


def make_way(context: Context, path: str) -> None:
    """Removes what is no regular file; a link would be written through, and a directory into."""
    info = context.lstat(path)
    if info is None or stat.S_ISREG(info.st_mode):
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(_inside(context, path))
        return
    try:
        os.rmdir(_inside(context, path))
    except OSError as error:
        raise RefusalError(f"cannot remove '{path}': {error.strerror}") from None


def write(context: Context, path: str, content: str, mode: int) -> None:
    """Writes a file of root's: the whole file or the old one, and on the disk when it returns."""
    real = _inside(context, path)
    folder = os.path.dirname(real)
    handle, new = tempfile.mkstemp(dir=folder, prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(content)
            stream.flush()
            _own(context, handle)
            os.fchmod(handle, mode)
            _keep_age(context, path, content, handle)
            os.fsync(handle)
        os.replace(new, real)
    except BaseException:
        os.unlink(new)
        raise
    directory_entries.sync(folder)


def _back_up(real: str) -> None:
    """Copies a file to NAME.PID.TIME~, with its mode and owner."""
    stamp = time.strftime("%Y-%m-%d@%H:%M:%S~", time.localtime())
    kept_copies.keep(real, f"{real}.{os.getpid()}.{stamp}")


def _keep_age(context: Context, path: str, content: str, handle: int) -> None:
    """A file whose mode or owner alone was wrong keeps its time: others go by it."""
    info = context.lstat(path)
    if info is not None and stat.S_ISREG(info.st_mode) and context.read(path) == content:
        os.utime(handle, ns=(info.st_atime_ns, info.st_mtime_ns))


def _unlink(context: Context, path: str) -> None:
    if context.lstat(path) is not None:
        os.unlink(_inside(context, path))


# modes


def set_modes(
    context: Context, wishes: Iterable[str], follow: bool = False, dry: bool = False
) -> list[dict[str, Any]]:
    """Differences of paths that were not root's with their mode; now they are, unless `dry`.

    `wishes`: "PATH 0755" each. A link is left alone, or followed with `follow`. Raises
    RefusalError where there is no such path, or OSError.
    """
    differences = []
    for wish in wishes:
        path, _mark, digits = wish.rpartition(" ")
        difference = _set_mode(context, path, int(digits, 8), follow, dry)
        if difference is not None:
            differences.append(difference)
    return differences


def _set_mode(
    context: Context, path: str, mode: int, follow: bool, dry: bool
) -> dict[str, Any] | None:
    info = context.lstat(path)
    if info is None:
        raise RefusalError(f"file ({path}) is absent, cannot continue")
    if stat.S_ISLNK(info.st_mode) and not follow:
        return None
    # Opened once, so that no other file is judged than the one that is changed.
    handle = os.open(_inside(context, path), _OPEN if follow else _OPEN | os.O_NOFOLLOW)
    try:
        info = os.fstat(handle)
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            raise RefusalError(f"{path} is neither a file nor a directory")
        owner, former = _owner(context)[0], stat.S_IMODE(info.st_mode)
        if (info.st_uid, former) == (owner, mode):
            return None
        if not dry:
            if info.st_uid != owner:
                os.fchown(handle, owner, -1)
            os.fchmod(handle, mode)
    finally:
        os.close(handle)
    before = {"path": path, "owner": info.st_uid, "mode": f"{former:04o}"}
    return _difference(path, before, {"path": path, "owner": owner, "mode": f"{mode:04o}"})


# what is to go


def remove(
    context: Context,
    files: Iterable[Entry],
    others: Iterable[str] = (),
    emptied: Iterable[str] = (),
    dry: bool = False,
) -> dict[str, list[str]]:
    """{removed, kept}: paths that were there and are not now, unless `dry`, and what is kept.

    `files` that are not as their content says are kept as NAME.save; `others` go as they are, and
    of `emptied` those directories that are empty then. Raises RefusalError or OSError.
    """
    removed: list[str] = []
    kept: list[str] = []
    for file in files:
        if context.lstat(file.path) is None:
            continue
        if file.unrendered is not None:
            raise RefusalError(file.unrendered)
        fault = file_state.fault(context, file.path, file.mode)
        content = None if fault == "a directory" else context.read(file.path)
        removed.append(file.path)
        if file_state.complaint(content, file.content or "", fault) is None:
            if not dry:
                _unlink(context, file.path)
        else:
            kept.append(file.path + SAVED)
            if not dry:
                _save(_inside(context, file.path))
    for path in others:
        if path not in removed and context.lstat(path) is not None:
            removed.append(path)
            if not dry:
                directory_entries.remove(_inside(context, path))
    gone = [path for path in removed if path + SAVED not in kept]
    removed += [path for path in emptied if _remove_empty(context, path, gone, dry)]
    return {"removed": removed, "kept": kept}


def _save(real: str) -> None:
    """Renames a file to NAME.save; one that is there becomes NAME.save.~N~."""
    make_room(real + SAVED)
    os.rename(real, real + SAVED)


def make_room(saved: str) -> None:
    """Renames what was kept by this name before to NAME.~N~, as of `mv --backup`."""
    if os.path.lexists(saved):
        number = 1
        while os.path.lexists(f"{saved}.~{number}~"):
            number += 1
        os.rename(saved, f"{saved}.~{number}~")


def _remove_empty(context: Context, path: str, gone: list[str], dry: bool) -> bool:
    """Whether a directory has nothing in it but what is `gone`; then it goes, unless `dry`."""
    info = context.lstat(path)
    if info is None or not stat.S_ISDIR(info.st_mode):
        return False
    if any(f"{path}/{name}" not in gone for name in os.listdir(_inside(context, path))):
        return False
    if not dry:
        try:
            os.rmdir(_inside(context, path))
        except OSError:  # somebody has put something into it this moment
            return False
    return True
