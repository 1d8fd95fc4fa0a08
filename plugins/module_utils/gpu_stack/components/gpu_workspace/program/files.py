"""Files of the host: read where they are there, written whole."""

import json
import os
import tempfile

ROOT = "/"


def inside(path):
    """A path of the host."""
    return os.path.join(ROOT, path.lstrip("/"))


def text(path):
    """A file's text; None where there is none."""
    try:
        with open(inside(path), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def data(path):
    """A file's JSON; None where there is none, or it is something else."""
    try:
        return json.loads(text(path) or "null")
    except ValueError:
        return None


def put(path, content, mode=0o600, owner=(0, 0)):
    """The whole file or the old one."""
    handle, new = tempfile.mkstemp(dir=os.path.dirname(inside(path)), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, mode)
        if os.geteuid() == 0:
            os.chown(new, *owner)
        os.replace(new, inside(path))
    except BaseException:
        os.unlink(new)
        raise
