"""Writes an environment's `bin/activate`; what it is to say is `activation`'s."""

import os
import tempfile

from .activation import wanted


def bring(path, prefix, dry=False):
    """(text before, text after) of an `activate` whose CUDA is now `prefix`, or none where "".

    A file that is not there, or empty, is left so. `dry`: nothing is written.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        text = ""
    new = wanted(text, prefix) if text else text
    if new != text and not dry:
        _write(path, new)
    return text, new


def _write(path, text):
    """The whole file or the old one, with its mode and owner."""
    like = os.stat(path)
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(new, like.st_mode & 0o7777)
        os.chown(new, like.st_uid, like.st_gid)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
