"""The directories on the way to cuDNN's files: everybody enters them, and root alone writes."""

import os
import stat

from ...host import modes


def faults(context, root, directory, names):
    """{directory on the way to the files: why not everybody may enter it, or others may write}.

    Whose the directories above `root` are is the administrator's to say.
    """
    paths = set()
    for name in names:
        parts = name.split("/")[:-1]
        paths.update("/".join([directory, *parts[:end]]) for end in range(len(parts) + 1))
    parts = [part for part in directory.split("/") if part]
    paths.update("/" + "/".join(parts[: end + 1]) for end in range(len(parts)))
    found = {}
    owner = modes.owner_of_all(context)
    for path in sorted(paths):
        info = context.stat(path)
        if info is None or not stat.S_ISDIR(info.st_mode):
            continue
        fault = modes.of_directory(context, info, owner)
        inside = path == root or path.startswith(root + "/")
        if fault is not None and fault.endswith(", closed"):
            found[path] = "closed"
        elif inside and fault is not None:
            found[path] = fault
        elif inside and info.st_mode & stat.S_IWOTH:
            # With the sticky bit too: whoever adds a library here is found by the loader.
            found[path] = f"mode {stat.S_IMODE(info.st_mode):04o}, writable by others"
    return found


def cure(context, root, directory, names, doing=True):
    """Opens what is closed and takes from others what they could write; the paths, sorted.

    A link in a directory's place is the administrator's, and stays. Without `doing` nothing is
    changed.
    """
    cured = set()
    for step in (_open, _close):
        for path, fault in faults(context, root, directory, names).items():
            if stat.S_ISDIR(context.lstat(path).st_mode):
                cured.add(path)
                if doing and (fault == "closed") == (step is _open):
                    _do(step, path)
    return sorted(cured)


def _do(step, path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        step(handle)
    finally:
        os.close(handle)


def _open(handle):
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | 0o555)


def _close(handle):
    os.fchown(handle, 0, -1)
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~0o022)
