"""Files that a role writes whole: their text is not all that can be wrong with them.

A profile that only root can read, a drop-in that is a link into somebody's home, or the empty
directory that a container's bind mount made in a file's place have the right name, and some the
right text; programs that read them get nothing, or tomorrow something else.
"""

import stat

MODE = 0o644


def fault(context, path, mode=MODE):
    """What keeps `path` from being an ordinary file of root's with this mode; None if it is one.

    A path where nothing is has no fault: that it is absent is told by its text.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if stat.S_ISLNK(info.st_mode):
        return "a link to {0}".format(context.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "not a file"
    root = context.stat("/")
    if root is not None and (info.st_uid, info.st_gid) != (root.st_uid, root.st_gid):
        return "owned by {0}:{1}".format(info.st_uid, info.st_gid)
    if stat.S_IMODE(info.st_mode) != mode:
        return "mode {0:04o}".format(stat.S_IMODE(info.st_mode))
    return None


def folder_fault(context, path):
    """What keeps `path` from being a directory that root alone can write to; None if it is one.

    A path where nothing is has no fault.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return "no directory"
    root = context.stat("/")
    if root is not None and info.st_uid != root.st_uid:
        return "owned by {0}".format(info.st_uid)
    mode = stat.S_IMODE(info.st_mode)
    return None if mode == 0o755 else "mode {0:04o}".format(mode)


def faults(context, paths):
    """{path: fault} of the paths that have one."""
    found = {}
    for path in paths:
        one = fault(context, path)
        if one is not None:
            found[path] = one
    return found


def complaint(seen, wish, found):
    """Why a written file is not as wished, as the text of a change's `from`; None where it is.

    `seen` and `wish` are texts, None where there is no file; `found` is its fault.
    """
    if wish is None:
        return None if seen is None and found is None else "present"
    if found is not None:
        return found
    if seen == wish:
        return None
    return "absent" if seen is None else "other content"
