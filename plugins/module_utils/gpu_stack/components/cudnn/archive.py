"""Reads an untrusted cuDNN archive: it may be another file, a web page, or malicious.

Ansible's unarchive would write straight into the target, follow the archive's paths wherever they
lead, and leave a half-filled directory when the disk is full or the file is truncated.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tarfile
import zlib

from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO, Any, BinaryIO

try:
    from lzma import LZMAError
except ImportError:  # a Python built without it; tarfile refuses the archive then
    LZMAError = EOFError  # type: ignore[assignment,misc]  # mypy knows only the first

BLOCK = 1 << 20
DIRECTORY_MODE = 0o755
FULL = (errno.ENOSPC, errno.EDQUOT)
BROKEN = (EOFError, tarfile.TarError, zlib.error, LZMAError)
PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
LINKED = "a link on the way to it was made by a user of this host: name the file itself"
PAGE = re.compile(rb"\s*(<!doctype html|<html|<\?xml|<head)", re.IGNORECASE)
COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")


class OtherFileError(RefusalError):
    """The file is not the archive that was asked for, or can't be read."""


# --- opening -----------------------------------------------------------------------------------


def open_archive(archive: str) -> BinaryIO:
    """Opens the archive for reading; refuses what is not a regular file.

    It may be in a directory where users can write. A named pipe would block, and a link could lead
    to what only root may read: so links are followed only if root, or whoever runs this, owns them.
    """
    try:
        handle = _handle(os.path.abspath(archive))
        stream = os.fdopen(handle, "rb")  # refuses a directory
    except OSError as error:
        raise OtherFileError(f"cannot read {archive}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        stream.close()
        raise OtherFileError(f"cannot read {archive}: it is not a regular file")
    return stream


def _handle(path: str) -> int:
    todo = [part for part in path.split("/") if part]
    place = os.open("/", PLACE)
    try:
        for _steps in range(1000):
            name = todo.pop(0)
            try:
                handle = os.open(name, PLACE if todo else FILE, dir_fd=place)
            except OSError as error:
                # A link gives ELOOP, and ENOTDIR where a directory is asked for.
                info = os.stat(name, dir_fd=place, follow_symlinks=False)
                if not stat.S_ISLNK(info.st_mode):
                    raise
                if info.st_uid not in (0, os.geteuid()):
                    raise OSError(errno.EPERM, LINKED) from error
                target = os.readlink(name, dir_fd=place)
                todo = [part for part in target.split("/") if part] + todo
                handle = os.open("/" if target.startswith("/") else ".", PLACE, dir_fd=place)
                todo = todo or ["."]
            else:
                if not todo:
                    return handle
            os.close(place)
            place = handle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    finally:
        os.close(place)


def is_private(archive: str, stream: BinaryIO) -> bool:
    """Whether nobody else can write to this open file: it and its directory are private."""
    info, around = os.fstat(stream.fileno()), os.stat(os.path.dirname(os.path.abspath(archive)))
    mine = info.st_uid == os.geteuid() and around.st_uid == os.geteuid()
    return mine and not around.st_mode & 0o077 and not info.st_mode & 0o022


# --- checking ----------------------------------------------------------------------------------


def check(archive: str, sha256: str) -> None:
    """Refuse a file whose SHA-256 differs, and say what it is instead."""
    with open_archive(archive) as stream:
        check_stream(archive, stream, sha256)


def check_stream(
    archive: str, stream: BinaryIO, sha256: str, copy: IO[bytes] | None = None
) -> None:
    """As `check`, of an open file, which is also written to `copy` while it is read."""
    digest, size, start = hashlib.sha256(), 0, b""
    try:
        for block in iter(lambda: stream.read(BLOCK), b""):
            start = start or block[:512]
            digest.update(block)
            size += len(block)
            if copy is not None:
                copy.write(block)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise OtherFileError(f"cannot read {archive}: {error.strerror}") from error
    actual, expected = digest.hexdigest(), sha256.lower()
    if actual == expected:
        return
    if not start:
        raise OtherFileError(f"{archive} is empty")
    if PAGE.match(start):
        raise OtherFileError(
            f"{archive} is a web page ({size} bytes), not an archive: most likely the site's login"
            " or error page. Download the archive in a browser and name the file, or use another"
            " URL"
        )
    message = f"{archive} has SHA-256 {actual}, expected {expected}"
    if not start.startswith(COMPRESSED):
        raise OtherFileError(f"{message}; it is not a compressed archive at all")
    if is_truncated(stream if copy is None else copy):
        raise OtherFileError(f"{message}; it is cut short after {size} bytes: download it again")
    raise OtherFileError(f"{message}; it is another archive, or was changed on its way")


def is_truncated(archive: IO[bytes]) -> bool:
    """Whether the compressed stream of an open file ends before its own end marker."""
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive, mode="r:*") as stream:
            for _member in stream:
                pass
    except (*BROKEN, OSError) as error:
        return "end" in str(error).lower() or isinstance(error, EOFError)
    return False


def safe_parts(member: tarfile.TarInfo) -> list[str]:
    """The parts of a member's path; refuses an absolute one and one that leaves the archive."""
    name = member.name
    if name.startswith("/"):
        raise RefusalError(f"the archive holds the absolute path {name!r}")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusalError(f"the archive holds the path {name!r}, which leaves its directory")
    return parts


def safe_link(relative: str, target: str, kind: str) -> None:
    """Refuse a link that is absolute or leaves the archive's top directory."""
    if target.startswith("/"):
        raise RefusalError(f"the archive holds {kind} {relative!r} to the absolute path {target!r}")
    reached = os.path.normpath(os.path.join(os.path.dirname(relative), target))
    if reached == ".." or reached.startswith("../"):
        raise RefusalError(
            f"the archive holds {kind} {relative!r} to {target!r}, which leaves its directory"
        )


# --- unpacking ---------------------------------------------------------------------------------


def unpack(archive: IO[bytes], staging: str) -> dict[str, dict[str, Any]]:
    """Unpack an open archive without its top directory into staging; returns the manifest's files.

    Every member is checked before anything of it is written; links come last, so that nothing can
    be written through them. Modes are made readable by all, whatever the archive or the umask says.
    """
    unpacking = _Unpacking(staging)
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:*") as stream:
        for member in stream:
            unpacking.take(stream, member)
    unpacking.finish()
    return unpacking.files


class _Unpacking:
    """State of an unpacking: the files in staging so far, and the links that come last."""

    def __init__(self, staging: str) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self._staging = staging
        self._links: dict[str, str] = {}
        self._hardlinks: dict[str, str] = {}
        self._top: str | None = None

    def take(self, stream: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = safe_parts(member)
        if not parts:
            return
        self._top = self._top or parts[0]
        if parts[0] != self._top:
            raise RefusalError(
                f"the archive has more than one top directory ({self._top!r} and {parts[0]!r}): not"
                " an archive of NVIDIA's layout"
            )
        relative = "/".join(parts[1:])
        if member.isdir():
            make_directories(self._staging, relative)
        elif not relative:
            raise RefusalError(f"the archive holds the file {member.name!r} outside a directory")
        elif relative in self.files or relative in self._links or relative in self._hardlinks:
            raise RefusalError(f"the archive holds {member.name!r} twice")
        else:
            self._take(stream, member, relative)

    def _take(self, stream: tarfile.TarFile, member: tarfile.TarInfo, relative: str) -> None:
        if member.isreg():
            content = stream.extractfile(member)
            assert content is not None  # noqa: S101  of a regular file
            self.files[relative] = write_file(content, self._staging, relative, member.mode)
        elif member.issym():
            safe_link(relative, member.linkname, "the symbolic link")
            self._links[relative] = member.linkname
        elif member.islnk():
            target = [part for part in member.linkname.split("/") if part not in ("", ".")]
            if member.linkname.startswith("/") or ".." in target or target[:1] != [self._top]:
                raise RefusalError(
                    f"the archive holds the hard link {member.name!r} to {member.linkname!r}, which"
                    " leaves its directory"
                )
            self._hardlinks[relative] = "/".join(target[1:])
        else:
            raise RefusalError(
                f"the archive holds {member.name!r}, a device or another special file"
            )

    def finish(self) -> None:
        # A hard link becomes a file of its own: one file fewer that a repair could miss.
        for relative, target in sorted(self._hardlinks.items()):
            if target not in self.files:
                raise RefusalError(
                    f"the archive holds the hard link {relative!r} to nothing it holds"
                )
            mode = int(self.files[target]["mode"], 8)
            with open(os.path.join(self._staging, target), "rb") as source:
                self.files[relative] = write_file(source, self._staging, relative, mode)
        for relative, target in sorted(self._links.items()):
            make_directories(self._staging, os.path.dirname(relative))
            path = os.path.join(self._staging, relative)
            if os.path.lexists(path):
                raise RefusalError(
                    f"the archive holds {relative!r} both as a link and as a directory"
                )
            os.symlink(target, path)
            self.files[relative] = {"link": target}


def make_directories(staging: str, relative: str) -> None:
    """Make a directory and its parents below staging, readable by all."""
    path = staging
    for part in [part for part in relative.split("/") if part]:
        path = os.path.join(path, part)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise RefusalError(
                    f"the archive uses the file {relative!r} as a directory"
                ) from None
            continue
        os.chmod(path, DIRECTORY_MODE)


def write_file(source: IO[bytes], staging: str, relative: str, mode: int) -> dict[str, Any]:
    """Copy one file into staging, flushed to the disk; returns its entry in the manifest."""
    make_directories(staging, os.path.dirname(relative))
    path = os.path.join(staging, relative)
    mode = 0o755 if mode & 0o111 else 0o644
    digest = hashlib.sha256()
    size = 0
    with open(path, "xb") as target:
        for block in iter(lambda: source.read(BLOCK), b""):
            digest.update(block)
            size += len(block)
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
    os.chmod(path, mode)
    return {"size": size, "sha256": digest.hexdigest(), "mode": f"{mode:04o}"}
