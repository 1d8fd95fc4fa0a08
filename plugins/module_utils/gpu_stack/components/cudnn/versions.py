"""The versions below cuDNN's root: installs one, switches to it, and removes versions.

Nothing under the root is visible until it is complete: a refused archive leaves the host unchanged.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import time

from ...host import code_users, directory_entries
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import layout
from .archive import (
    BROKEN,
    DIRECTORY_MODE,
    FULL,
    check_stream,
    is_private,
    open_archive,
    unpack,
)

if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from ...host.context import Context

STAGING_PREFIX = ".staging-"


# --- looking -----------------------------------------------------------------------------------


def differences(context: Context, version: layout.Version) -> list[str]:
    """Why an unpacked version cannot be used as it is: a list of sentences, empty when complete.

    Sizes, modes and links are compared with the manifest; contents are not hashed, for they are
    gigabytes and this runs every time.
    """
    if context.lstat(version.tree) is None:
        return [f"{version.name} is not installed"]
    manifest = layout.manifest(context, version.tree)
    if manifest is None:
        return [f"{version.tree} has no readable {layout.MANIFEST}"]
    locked = {
        "version": version.version,
        "cuda": version.cuda,
        "archive_sha256": version.sha256.lower(),
    }
    problems = [
        f"{key} is {manifest.get(key)} in the manifest, not {value}"
        for key, value in sorted(locked.items())
        if manifest.get(key) != value
    ]
    for relative, entry in sorted(manifest["files"].items()):
        actual = layout.entry(context, f"{version.tree}/{relative}")
        fault = layout.fault(entry, actual)
        if fault is not None:
            problems.append(f"{relative} {_sentence(fault, entry, actual)}")
    return problems


def _sentence(fault: str, entry: dict[str, Any], actual: Any) -> str:
    if fault == "missing":
        return "is missing"
    if fault == "kind":
        return f"is not a link to {entry['link']}" if "link" in entry else "is not a file"
    if fault == "size":
        return f"has {actual['size']} bytes, not {entry['size']}"
    return f"has mode {actual['mode']}, not {entry['mode']}"


def look(context: Context, version: layout.Version) -> dict[str, Any]:
    """State of the installed versions as plain data; changes nothing."""
    problems = differences(context, version)
    manifest = layout.manifest(context, version.tree)
    return {
        "complete": not problems,
        "problems": problems,
        "current": context.readlink(f"{version.root}/{layout.CURRENT}") == version.name,
        "names": sorted(manifest["files"]) if manifest is not None else [],
        "others": layout.others(context, version.root, version.name),
    }


# --- installing a version ----------------------------------------------------------------------


def put(
    context: Context, version: layout.Version, archive: str, again: bool = False
) -> dict[str, Any]:
    """Unpack a checked archive to its versioned directory; returns {changed, backup}.

    The current version stays current. One that is already complete is not touched unless `again`
    is set; a damaged one is replaced as a whole, so that programs that have the old libraries open
    keep them.
    """
    if not again and not differences(context, version):
        return {"changed": False, "backup": []}
    with open_archive(archive) as stream:
        return {"changed": True, "backup": _put(context, version, archive, stream)}


def _put(context: Context, version: layout.Version, archive: str, stream: BinaryIO) -> list[str]:
    """Check and unpack an open archive, and move it into place; returns the paths of backups.

    What is hashed is what is unpacked: a file that its owner could still write to is copied first.
    """
    copied = not is_private(archive, stream)
    if not copied:
        check_stream(archive, stream, version.sha256)
    new_directories = make_root(version.root)
    staging = None
    try:
        remove_stagings(version.root)
        staging = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=version.root)
        # The copy has no name: nobody finds it, and it ends with this process.
        with tempfile.TemporaryFile(dir=staging) as copy:
            if copied:
                check_stream(archive, stream, version.sha256, copy)
            os.chmod(staging, DIRECTORY_MODE)
            files = unpack(copy if copied else stream, staging)
        verify_tree(context, staging, version.version, files)
        write_manifest(staging, version, files)
        directory_entries.sync(staging)
        kept = put_in_place(context, staging, version.tree)
        directory_entries.sync(version.root)
    except BaseException as error:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for directory in new_directories:
            try:
                os.rmdir(directory)
            except OSError:
                break
        raise explained(error, version.root) from error
    return kept


def explained(error: BaseException, root: str) -> BaseException:
    """The error, as a RefusalError if the disk or the archive is its cause."""
    if isinstance(error, OSError) and error.errno in FULL:
        return RefusalError(f"no space left on the filesystem of {root}; nothing was changed")
    if isinstance(error, BROKEN):
        return RefusalError(f"the archive cannot be unpacked: {error}")
    return error


def verify_tree(
    context: Context, tree: str, version: str, files: dict[str, dict[str, Any]]
) -> None:
    """Refuse an unpacked tree of another version or without a library."""
    text = context.read(f"{tree}/include/cudnn_version.h")
    if text is None:
        raise RefusalError("the archive holds no include/cudnn_version.h: it is not cuDNN 8")
    numbers = layout.header_numbers(text)
    for word in ("MAJOR", "MINOR", "PATCHLEVEL"):
        if word not in numbers:
            raise RefusalError(f"include/cudnn_version.h defines no CUDNN_{word}")
    archived = layout.header_version(text)
    if version.split(".")[:3] != (archived or "").split("."):
        raise RefusalError(f"the archive holds cuDNN {archived}, not {version}")
    library = f"{layout.library_directory(files)}/libcudnn.so.{version.split('.')[0]}"
    if not context.exists(f"{tree}/{library}"):
        raise RefusalError(f"the archive holds no {library}")


def write_manifest(tree: str, version: layout.Version, files: dict[str, dict[str, Any]]) -> None:
    """Write the manifest last: a directory without one is incomplete."""
    manifest = {
        "format": layout.MANIFEST_FORMAT,
        "version": version.version,
        "cuda": version.cuda,
        "archive_sha256": version.sha256.lower(),
        "files": files,
    }
    path = os.path.join(tree, layout.MANIFEST)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(path, 0o644)


def make_root(root: str) -> list[str]:
    """Create the root and its parents, readable by all; returns the new ones, deepest first."""
    new_directories = []
    path = os.path.abspath(root)
    while not os.path.lexists(path):
        new_directories.append(path)
        path = os.path.dirname(path)
    for directory in reversed(new_directories):
        os.mkdir(directory)
        os.chmod(directory, DIRECTORY_MODE)
    return new_directories


def remove_stagings(root: str) -> None:
    """Remove staging directories of killed runs."""
    for name in os.listdir(root):
        if name.startswith(STAGING_PREFIX):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def backup_name(path: str) -> str:
    """A free name for a file in the way that this role did not create."""
    stem = f"{path}.backup-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    names = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(1)))
    return next(name for name in names if not os.path.lexists(name))


def put_in_place(context: Context, staging: str, tree: str) -> list[str]:
    """Rename staging to its final name; returns backups of what was there and was not ours.

    Of a version of this role's, that is what somebody changed in it or added to it.
    """
    if not os.path.lexists(tree):
        os.rename(staging, tree)
        return []
    if layout.manifest(context, tree) is None:
        kept = backup_name(tree)
        os.rename(tree, kept)
        os.rename(staging, tree)
        return [kept]
    backup = keep_edits(context, tree)
    aside = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=os.path.dirname(tree))
    os.rename(tree, os.path.join(aside, "old"))
    os.rename(staging, tree)
    shutil.rmtree(aside, ignore_errors=True)
    return backup


def keep_edits(context: Context, tree: str) -> list[str]:
    """Keep a tree's files that are not as they were unpacked; returns the directory they are in.

    As further links to them: nothing is copied, and the tree is whole until it is replaced. Not
    within the tree, where the loader would take a library by whatever name.
    """
    files = (layout.manifest(context, tree) or {"files": {}})["files"]
    edited = [
        name
        for name in _names_below(tree)
        if name != layout.MANIFEST
        and not (name in files and _is_as_unpacked(context, f"{tree}/{name}", files[name], 0))
    ]
    if not edited:
        return []
    kept = backup_name(tree)
    try:
        for name in edited:
            os.makedirs(os.path.dirname(f"{kept}/{name}"), exist_ok=True)
            os.link(f"{tree}/{name}", f"{kept}/{name}", follow_symlinks=False)
        directory_entries.sync(kept)
    except BaseException:
        shutil.rmtree(kept, ignore_errors=True)
        raise
    return [kept]


def _names_below(tree: str) -> list[str]:
    """Relative paths of everything below a directory but its directories, sorted."""
    paths = []
    for place, directories, files in os.walk(tree):
        links = [name for name in directories if os.path.islink(os.path.join(place, name))]
        paths += [os.path.join(place, name) for name in [*files, *links]]
    return sorted(os.path.relpath(path, tree) for path in paths)


# --- switching and removing --------------------------------------------------------------------


def switch(context: Context, version: layout.Version) -> dict[str, Any]:
    """Point ROOT/current at a version, atomically; a foreign "current" is kept under a new name."""
    current = f"{version.root}/{layout.CURRENT}"
    if context.readlink(current) == version.name:
        return {"changed": False, "backup": []}
    backup = []
    if os.path.lexists(current) and not _is_ours(context, current):
        backup.append(backup_name(current))
        os.rename(current, backup[0])
    temporary = f"{current}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(version.name, temporary)
    os.rename(temporary, current)
    directory_entries.sync(version.root)
    return {"changed": True, "backup": backup}


def _is_ours(context: Context, current: str) -> bool:
    """Whether `current` is a link to a version of this role's, existing or removed."""
    target = context.readlink(current)
    # A link of the administrator's leads elsewhere.
    near = target is not None and "/" not in target
    return near and (not context.exists(current) or layout.manifest(context, current) is not None)


def prune(context: Context, version: layout.Version) -> list[str]:
    """Remove the other versions that this role installed; returns the directories of what was kept.

    That is what somebody changed in them or added to them. A refusal where a process uses one of
    them: it may open a library of that version yet.
    """
    names = layout.others(context, version.root, version.name)
    trees = [f"{version.root}/{name}" for name in names]
    code_users.refuse(context, trees)
    kept = []
    for tree in trees:
        kept += keep_edits(context, tree)
        shutil.rmtree(tree)
    return kept


def removable(context: Context, root: str) -> list[str]:
    """Paths that `remove` removes: the versions that this role installed, and their link."""
    current = f"{root}/{layout.CURRENT}"
    return [current] * _is_ours(context, current) + [
        f"{root}/{name}"
        for name in context.listdir(root)
        if context.readlink(f"{root}/{name}") is None
        and layout.manifest(context, f"{root}/{name}") is not None
    ]


def remove(context: Context, root: str) -> dict[str, Any]:
    """Remove all versions that this role installed, file by file as their manifests name them.

    A file that was changed since is kept as .save; files that are in no manifest stay.
    """
    result: dict[str, Any] = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    remove_stagings(root)
    for path in removable(context, root):
        result["changed"] = True
        if os.path.islink(path):
            os.unlink(path)
        else:
            result["kept"] += _remove_version(context, path)
            result["removed"].append(path)
    if not os.listdir(root):
        os.rmdir(root)
    return result


def _remove_version(context: Context, tree: str) -> list[str]:
    """Remove the files in a version's manifest; returns the files that were kept."""
    kept = []
    # Written last on installation, and so removed last: after an interruption the next run resumes.
    since = os.stat(os.path.join(tree, layout.MANIFEST)).st_mtime
    manifest = layout.manifest(context, tree) or {"files": {}}
    for relative, entry in sorted(manifest["files"].items()):
        path = os.path.join(tree, relative)
        if not os.path.lexists(path):
            continue
        if _is_as_unpacked(context, path, entry, since):
            os.unlink(path)
        else:
            save = path + ".save"
            if os.path.lexists(save):
                save = backup_name(path)
            os.rename(path, save)
            kept.append(save)
    os.unlink(os.path.join(tree, layout.MANIFEST))
    remove_empty(tree)
    return kept


def _is_as_unpacked(context: Context, path: str, entry: dict[str, Any], since: float) -> bool:
    """Whether a file or link has its manifest's content; newer files are hashed."""
    fault = layout.fault(entry, layout.entry(context, path, since=since))
    return fault in (None, "mode")


def remove_empty(top: str) -> None:
    """Remove the empty directories below `top`, and `top` itself if it is empty then."""
    for directory, _directories, _files in os.walk(top, topdown=False):
        if not os.listdir(directory):
            os.rmdir(directory)
