"""What worker 0 has backed up, brought to the others before each try.

BackupAndRestore expects one folder that all workers share. TensorFlow 2.9 lets worker 0 alone keep
its backup, so on hosts with disks of their own the others would begin at the first epoch again,
while worker 0 goes on at a later one.
"""

from __future__ import annotations

import os
import shutil
import tarfile

FOLDER = "backup"
# What a worker has where worker 0 has no backup: worker 0's disk may have been lost, and this is
# the last copy then.
FORMER = "backup.former"


def pack(work: str, target: str) -> None:
    """Writes an archive of the folder in `work`; an empty one where there is no such folder."""
    temporary = target + ".new"
    with tarfile.open(temporary, "w") as archive:
        folder = os.path.join(work, FOLDER)
        if os.path.isdir(folder):
            archive.add(folder, FOLDER, filter=_plain)
    os.replace(temporary, target)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return member if member.isfile() or member.isdir() else None


def unpack(archive: str, work: str) -> None:
    """Replaces the folder in `work` by the archive's. Raises tarfile.TarError, OSError.

    Where the archive has no file, a folder that has some is kept as FORMER.
    """
    fresh = os.path.join(work, "." + FOLDER + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    os.mkdir(fresh)
    with tarfile.open(archive) as opened:
        for member in opened:
            names = member.name.split("/")
            if ".." in names or names[0] != FOLDER or not (member.isfile() or member.isdir()):
                raise tarfile.TarError("no backup has this: {0}".format(member.name))
            path = os.path.join(fresh, member.name)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            source = opened.extractfile(member)
            if source is not None:
                with source, open(path, "wb") as file:
                    shutil.copyfileobj(source, file)
    folder = os.path.join(work, FOLDER)
    if _has_files(folder) and not _has_files(os.path.join(fresh, FOLDER)):
        _put_aside(folder, os.path.join(work, FORMER))
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(os.path.join(fresh, FOLDER)):
        os.rename(os.path.join(fresh, FOLDER), folder)
    shutil.rmtree(fresh, ignore_errors=True)


def _has_files(folder: str) -> bool:
    return any(files for _path, _folders, files in os.walk(folder))


def _put_aside(folder: str, former: str) -> None:
    """Renames a folder to `former`, or to that with the first number that is free."""
    name, number = former, 0
    while os.path.lexists(name):
        number += 1
        name = "{0}.{1}".format(former, number)
    os.rename(folder, name)
