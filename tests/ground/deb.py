"""Read and write .deb files without dpkg: contents can be moved to other paths on the way.

The same contents give the same bytes: no times of today, root owns everything. Packages are
packed with gzip at its fastest, since dpkg's own xz would take minutes for CUDA's libraries.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

TIME = 1614556800  # the month in which CUDA 11.2.2 came out
_AR = b"!<arch>\n"


def _members(handle: IO[bytes]) -> Iterator[tuple[str, int]]:
    """(name, size) of an ar archive's members; the handle stands at the member's first byte."""
    if handle.read(8) != _AR:
        raise ValueError(f"{handle.name} is no Debian package")
    while header := handle.read(60):
        size = int(header[48:58])
        place = handle.tell()
        yield header[:16].decode("ascii").strip().rstrip("/"), size
        handle.seek(place + size + size % 2)


class _Slice(io.RawIOBase):
    """The bytes of one member, as a file of their own."""

    def __init__(self, handle: IO[bytes], size: int) -> None:
        self._handle, self._left = handle, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._handle.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


@contextmanager
def opened(path: Path, part: str) -> Iterator[tarfile.TarFile]:
    """The tar `control` or `data` of a package, to be read from front to back once."""
    with path.open("rb") as handle:
        for name, size in _members(handle):
            if name.startswith(part + ".tar"):
                raw = io.BufferedReader(_Slice(handle, size), 1 << 20)
                kind = name.rpartition(".")[2]
                plain: IO[bytes] = raw
                if kind == "xz":
                    plain = lzma.LZMAFile(raw)  # noqa: SIM115 - ends with the member
                elif kind == "gz":
                    plain = gzip.GzipFile(fileobj=raw)
                with tarfile.open(fileobj=plain, mode="r|") as tar:
                    yield tar
                return
    raise ValueError(f"{path} has no {part}")


def files(path: Path) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes] | None]]:
    """(path without the leading ./, entry, contents of a file) of what a package installs."""
    with opened(path, "data") as tar:
        for entry in tar:
            if not entry.isdir():
                content = tar.extractfile(entry) if entry.isreg() else None
                yield entry.name.removeprefix("./"), entry, content


def control(path: Path) -> str:
    """A package's control file."""
    with opened(path, "control") as tar:
        for entry in tar:
            if entry.name.removeprefix("./") == "control":
                handle = tar.extractfile(entry)
                return handle.read().decode("utf-8") if handle else ""
    raise ValueError(f"{path} has no control file")


class Writer:
    """A package being written: add files, links and directories, then `close`.

    `fields` are the control file's; `scripts` the maintainer scripts ({"postinst": text}), or
    `triggers`; conffiles are listed from what lies under /etc. `level` 0 is for contents that are
    packed already.
    """

    def __init__(
        self,
        target: Path,
        fields: Mapping[str, str],
        scripts: Mapping[str, str] | None = None,
        *,
        level: int = 1,
    ) -> None:
        self.target = target
        self._fields, self._scripts = dict(fields), dict(scripts or {})
        self._spool = target.with_suffix(".data")
        self._raw = self._spool.open("wb")
        self._packed = gzip.GzipFile("", "wb", compresslevel=level, fileobj=self._raw, mtime=0)
        self._tar = tarfile.open(  # noqa: SIM115 - lives as long as the writer
            fileobj=self._packed, mode="w", format=tarfile.GNU_FORMAT
        )
        self._directories = {""}
        self._conffiles: list[str] = []
        self._size = 0
        self._directory("./")

    def _directory(self, name: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, TIME
        self._own(entry)
        self._tar.addfile(entry)

    @staticmethod
    def _own(entry: tarfile.TarInfo) -> None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"

    def directory(self, path: str) -> None:
        """A directory and those above it, each once."""
        if path not in self._directories:
            self.directory(os.path.dirname(path))
            self._directories.add(path)
            self._directory(f"./{path}/")

    def file(self, path: str, content: IO[bytes] | bytes | str, mode: int = 0o644, size: int = -1):
        """A file; `content` is bytes, text or a stream of `size` bytes."""
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, bytes):
            size, content = len(content), io.BytesIO(content)
        self.directory(os.path.dirname(path))
        entry = tarfile.TarInfo("./" + path)
        entry.size, entry.mode, entry.mtime = size, mode, TIME
        self._own(entry)
        self._tar.addfile(entry, content)
        self._size += size
        if path.startswith("etc/"):
            self._conffiles.append("/" + path)

    def link(self, path: str, to: str) -> None:
        """A symbolic link."""
        self.directory(os.path.dirname(path))
        entry = tarfile.TarInfo("./" + path)
        entry.type, entry.linkname, entry.mode, entry.mtime = tarfile.SYMTYPE, to, 0o777, TIME
        self._own(entry)
        self._tar.addfile(entry)

    def close(self) -> Path:
        """Write the package, whole or not at all."""
        self._tar.close()
        self._packed.close()
        self._raw.close()
        fields = {**self._fields, "Installed-Size": str(-(-self._size // 1024))}
        inside = {"control": ("".join(f"{k}: {v}\n" for k, v in fields.items()), 0o644)}
        if self._conffiles:
            inside["conffiles"] = ("".join(f"{conffile}\n" for conffile in self._conffiles), 0o644)
        for name, text in self._scripts.items():
            inside[name] = (text, 0o644 if name == "triggers" else 0o755)
        packed = io.BytesIO()
        with (
            gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as raw,
            tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            for name, (text, mode) in inside.items():
                entry = tarfile.TarInfo("./" + name)
                data = text.encode()
                entry.size, entry.mode, entry.mtime = len(data), mode, TIME
                self._own(entry)
                tar.addfile(entry, io.BytesIO(data))
        unfinished = self.target.with_suffix(".part")
        with unfinished.open("wb") as out, self._spool.open("rb") as data_tar:
            out.write(_AR)
            self._member(out, "debian-binary", io.BytesIO(b"2.0\n"), 4)
            self._member(out, "control.tar.gz", packed, packed.tell())
            self._member(out, "data.tar.gz", data_tar, self._spool.stat().st_size)
        self._spool.unlink()
        unfinished.replace(self.target)
        return self.target

    @staticmethod
    def _member(out: IO[bytes], name: str, content: IO[bytes], size: int) -> None:
        out.write(f"{name:<16}{TIME:<12}{0:<6}{0:<6}{100644:<8}{size:<10}`\n".encode("ascii"))
        content.seek(0)
        while chunk := content.read(1 << 20):
            out.write(chunk)
        if size % 2:
            out.write(b"\n")


def digests(path: Path) -> dict[str, str]:
    """{algorithm: hexadecimal digest} of a file, as a Packages index names them."""
    found = {"MD5sum": hashlib.md5(), "SHA1": hashlib.sha1(), "SHA256": hashlib.sha256()}  # noqa: S324
    with path.open("rb") as handle:
        for chunk in iter(lambda: handle.read(1 << 20), b""):
            for hasher in found.values():
                hasher.update(chunk)
    return {name: hasher.hexdigest() for name, hasher in found.items()}
