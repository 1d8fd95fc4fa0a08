"""The versions below cuDNN's root: puts one there, switches to it, and takes versions away.

Nothing under the root is visible until it is complete: a refused archive leaves the host as it was.
"""

import itertools
import json
import os
import shutil
import tempfile
import time

from . import layout
from .archive import (
    BROKEN,
    DIRECTORY_MODE,
    FULL,
    RefusalError,
    check_stream,
    is_private,
    open_archive,
    unpack,
)

STAGING_PREFIX = ".staging-"


# --- looking -----------------------------------------------------------------------------------


def differences(context, wish):
    """Why an unpacked version cannot be used as it is: a list of sentences, empty when complete.

    Sizes, modes and links are compared with the manifest; contents are not hashed, for they are
    gigabytes and this runs every time.
    """
    if context.lstat(wish.tree) is None:
        return [f"{wish.name} is not installed"]
    manifest = layout.manifest(context, wish.tree)
    if manifest is None:
        return [f"{wish.tree} has no readable {layout.MANIFEST}"]
    wanted = {"version": wish.version, "cuda": wish.cuda, "archive_sha256": wish.sha256.lower()}
    problems = [
        f"{key} is {manifest.get(key)} in the manifest, not {value}"
        for key, value in sorted(wanted.items())
        if manifest.get(key) != value
    ]
    for relative, entry in sorted(manifest["files"].items()):
        seen = layout.entry(context, f"{wish.tree}/{relative}")
        fault = layout.fault(entry, seen)
        if fault is not None:
            problems.append(f"{relative} {_sentence(fault, entry, seen)}")
    return problems


def _sentence(fault, entry, seen):
    if fault == "missing":
        return "is missing"
    if fault == "kind":
        return f"is not a link to {entry['link']}" if "link" in entry else "is not a file"
    if fault == "size":
        return f"has {seen['size']} bytes, not {entry['size']}"
    return f"has mode {seen['mode']}, not {entry['mode']}"


def other_versions(context, wish):
    """Directories below the root that this role installed and that are not the wished version."""
    return [
        name
        for name in context.listdir(wish.root)
        if name != wish.name
        and not name.startswith(".")
        and context.readlink(f"{wish.root}/{name}") is None
        and layout.manifest(context, f"{wish.root}/{name}") is not None
    ]


def look(context, wish):
    """What is there, as plain data; changes nothing."""
    problems = differences(context, wish)
    manifest = layout.manifest(context, wish.tree)
    return {
        "complete": not problems,
        "problems": problems,
        "current": context.readlink(f"{wish.root}/{layout.CURRENT}") == wish.name,
        "names": sorted(manifest["files"]) if manifest is not None else [],
        "others": other_versions(context, wish),
    }


# --- putting a version there -------------------------------------------------------------------


def put(context, wish, archive, again=False):
    """Unpack a checked archive to its versioned directory, and leave the current one current.

    Whether something was changed, and what was kept under another name. A version that is already
    complete is not touched unless `again` is set; a damaged one is replaced as a whole, so that
    programs that have the old libraries open keep them.
    """
    if not again and not differences(context, wish):
        return {"changed": False, "backup": []}
    with open_archive(archive) as stream:
        return {"changed": True, "backup": _put(context, wish, archive, stream)}


def _put(context, wish, archive, stream):
    """Check and unpack an open archive beside its place, and put it there; returns what was kept.

    What is hashed is what is unpacked: a file that its owner could still write to is copied first.
    """
    copied = not is_private(archive, stream)
    if not copied:
        check_stream(archive, stream, wish.sha256)
    made = make_root(wish.root)
    staging = None
    try:
        remove_stagings(wish.root)
        staging = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=wish.root)
        # The copy has no name: nobody finds it, and it is gone with this process.
        with tempfile.TemporaryFile(dir=staging) as copy:
            if copied:
                check_stream(archive, stream, wish.sha256, copy)
            os.chmod(staging, DIRECTORY_MODE)
            files = unpack(copy if copied else stream, staging)
        verify_tree(context, staging, wish.version, files)
        write_manifest(staging, wish, files)
        sync_directory(staging)
        kept = put_in_place(context, staging, wish.tree)
        sync_directory(wish.root)
    except BaseException as error:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for directory in made:
            try:
                os.rmdir(directory)
            except OSError:
                break
        raise explained(error, wish.root) from error
    return kept


def explained(error, root):
    """The error as a refusal where its cause lies in the disk or the archive."""
    if isinstance(error, OSError) and error.errno in FULL:
        return RefusalError(f"no space left on the filesystem of {root}; nothing was changed")
    if isinstance(error, BROKEN):
        return RefusalError(f"the archive cannot be unpacked: {error}")
    return error


def verify_tree(context, tree, version, files):
    """Refuse an unpacked tree that is not the wanted version or holds no library."""
    text = context.read(f"{tree}/include/cudnn_version.h")
    if text is None:
        raise RefusalError("the archive holds no include/cudnn_version.h: it is not cuDNN 8")
    numbers = layout.header_numbers(text)
    for word in ("MAJOR", "MINOR", "PATCHLEVEL"):
        if word not in numbers:
            raise RefusalError(f"include/cudnn_version.h defines no CUDNN_{word}")
    found = layout.header_version(text)
    if version.split(".")[:3] != found.split("."):
        raise RefusalError(f"the archive holds cuDNN {found}, not {version}")
    library = f"{layout.library_directory(files)}/libcudnn.so.{version.split('.')[0]}"
    if not context.exists(f"{tree}/{library}"):
        raise RefusalError(f"the archive holds no {library}")


def write_manifest(tree, wish, files):
    """Write the manifest last: a directory without one is incomplete."""
    manifest = {
        "format": layout.MANIFEST_FORMAT,
        "version": wish.version,
        "cuda": wish.cuda,
        "archive_sha256": wish.sha256.lower(),
        "files": files,
    }
    path = os.path.join(tree, layout.MANIFEST)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(path, 0o644)


def sync_directory(path):
    """Make renames inside a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_root(root):
    """Make the root and its parents, readable by all; returns the new ones, deepest first."""
    made = []
    path = os.path.abspath(root)
    while not os.path.lexists(path):
        made.append(path)
        path = os.path.dirname(path)
    for directory in reversed(made):
        os.mkdir(directory)
        os.chmod(directory, DIRECTORY_MODE)
    return made


def remove_stagings(root):
    """Remove what an earlier run that was killed left behind."""
    for name in os.listdir(root):
        if name.startswith(STAGING_PREFIX):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def backup_name(path):
    """A name that is free, for something in the way that this role did not make."""
    stem = f"{path}.backup-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    names = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(1)))
    return next(name for name in names if not os.path.lexists(name))


def put_in_place(context, staging, tree):
    """Rename staging to its final name; what was there is removed if ours, else kept aside."""
    if not os.path.lexists(tree):
        os.rename(staging, tree)
        return []
    if layout.manifest(context, tree) is None:
        kept = backup_name(tree)
        os.rename(tree, kept)
        os.rename(staging, tree)
        return [kept]
    aside = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=os.path.dirname(tree))
    os.rename(tree, os.path.join(aside, "old"))
    os.rename(staging, tree)
    shutil.rmtree(aside, ignore_errors=True)
    return []


# --- switching and removing --------------------------------------------------------------------


def switch(context, wish):
    """Point ROOT/current at a version, atomically; a foreign "current" is kept under a new name."""
    current = f"{wish.root}/{layout.CURRENT}"
    if context.readlink(current) == wish.name:
        return {"changed": False, "backup": []}
    backup = []
    if os.path.lexists(current) and not _is_ours(context, current):
        backup.append(backup_name(current))
        os.rename(current, backup[0])
    temporary = f"{current}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(wish.name, temporary)
    os.rename(temporary, current)
    sync_directory(wish.root)
    return {"changed": True, "backup": backup}


def _is_ours(context, current):
    """Whether `current` is a link to a version of ours, or to one that is gone."""
    target = context.readlink(current)
    # A link of somebody's own leads elsewhere.
    near = target is not None and "/" not in target
    return near and (not context.exists(current) or layout.manifest(context, current) is not None)


def prune(context, wish):
    """Remove the other versions that this role installed, never one it did not; their names."""
    removed = other_versions(context, wish)
    for name in removed:
        shutil.rmtree(os.path.join(wish.root, name))
    return removed


def removable(context, root):
    """What `remove` would begin with: the versions that this role installed, and their link."""
    current = f"{root}/{layout.CURRENT}"
    return [current] * _is_ours(context, current) + [
        f"{root}/{name}"
        for name in context.listdir(root)
        if context.readlink(f"{root}/{name}") is None
        and layout.manifest(context, f"{root}/{name}") is not None
    ]


def remove(context, root):
    """Remove all versions that this role installed, file by file as their manifests name them.

    A file that was changed since is kept as .save, and so is every file that is not in a manifest.
    """
    result = {"changed": False, "removed": [], "kept": []}
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


def _remove_version(context, tree):
    """Remove what a version's manifest names; the files that were kept."""
    kept = []
    # Written last when it was installed, and so removed last: a run that is killed goes on.
    since = os.stat(os.path.join(tree, layout.MANIFEST)).st_mtime
    for relative, entry in sorted(layout.manifest(context, tree)["files"].items()):
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


def _is_as_unpacked(context, path, entry, since):
    """Whether a file or link has its manifest's content; hashed where it is newer than that."""
    fault = layout.fault(entry, layout.entry(context, path, since=since))
    return fault in (None, "mode")


def remove_empty(top):
    """Remove the empty directories below `top`, and `top` itself where nothing is left in it."""
    for directory, _directories, _files in os.walk(top, topdown=False):
        if not os.listdir(directory):
            os.rmdir(directory)
