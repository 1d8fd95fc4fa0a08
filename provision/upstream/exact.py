"""Fetches files whose hash is known: from bundles and the cache first, then from their addresses.

Nothing is trusted but the hash, so a file may come from wherever it is at hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provision.errors import DriftError, InputError, MachineError
from provision.upstream import download
from provision.upstream.download import Fetch, GoneError

_CHUNK = 1 << 20
# linux/fs.h
_FICLONE = 0x40049409


@dataclass(frozen=True)
class Exact:
    """A file by its SHA-256, or an index by its SHA-512. `where` names it in messages."""

    digest: str
    urls: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Places:
    """Where files are at hand: `have` are those of bundles, by their hashes."""

    cache: Path
    have: Mapping[str, Path] = field(default_factory=dict)
    # Their hashes by their paths in the bundles.
    at_path: Mapping[str, str] = field(default_factory=dict)
    get: Fetch = download.fetch

    def small(self, wanted: Exact) -> bytes:
        """The bytes of an index. Raises as `into`."""
        for path in (self.have.get(wanted.digest), self.cache / "indices" / wanted.digest):
            body = _small(path) if path is not None else b""
            if download.digest_like(body, wanted.digest) == wanted.digest:
                return body
        failed: list[Exception] = []
        for url in wanted.urls:
            try:
                body = self.get(url)
            except MachineError as error:
                failed.append(error)
                continue
            if download.digest_like(body, wanted.digest) == wanted.digest:
                download.keep(body, wanted.digest, self.cache)
                return body
            failed.append(_other(url, download.digest_like(body, wanted.digest)))
        raise _lost(wanted, failed)

    def beside(self, url: str, name: str, path: str) -> bytes:
        """A signature beside a locked file, which apt checks: its own hash is not locked.

        From a bundle by its path, as its manifest has it, from the cache by its name, or from its
        address.
        """
        digest = self.at_path.get(path, "")
        if digest in self.have:
            body = _small(self.have[digest])
            if download.digest_like(body, digest) == digest:
                return body
        file = self.cache / "indices" / name
        return file.read_bytes() if file.is_file() else self.get(url)

    def into(self, wanted: Exact, path: Path) -> int:
        """Writes the file, whole or not at all, unless it is there; returns its size.

        DriftError where its places have no such file any more, MachineError where none answers.
        """
        if path.is_file() and not path.is_symlink() and download.digest(path) == wanted.digest:
            return path.stat().st_size
        path.parent.mkdir(parents=True, exist_ok=True)
        failed: list[Exception] = []
        for source in self._at_hand(wanted):
            try:
                if source.is_file() and copied(source, path, wanted.digest):
                    return path.stat().st_size
            except MachineError as error:
                failed.append(error)
        for url in wanted.urls:
            try:
                download.into(url, path, sha256=wanted.digest)
            except (MachineError, InputError) as error:
                failed.append(error)
                continue
            return path.stat().st_size
        raise _lost(wanted, failed)

    def _at_hand(self, wanted: Exact) -> list[Path]:
        bundled = [self.have[wanted.digest]] if wanted.digest in self.have else []
        return bundled + [download.place(url, self.cache) for url in wanted.urls]


def copied(source: Path, path: Path, sha256: str) -> bool:
    """Copies a file if it has this hash, reading it once; whether it has.

    MachineError where it can't be read, OSError where the copy can't be written.
    """
    part = download.begun(path)
    if _cloned(source, part):
        actual = download.digest(part)  # of the copy: what is hashed is what stays
    else:
        digest = hashlib.sha256()
        with part.open("wb") as writer:
            for chunk in _chunks(source):
                digest.update(chunk)
                writer.write(chunk)
        actual = digest.hexdigest()
    if actual != sha256:
        part.unlink()
        return False
    os.replace(part, path)
    return True


def _cloned(source: Path, part: Path) -> bool:
    """Copies a file without writing its bytes, on a file system that can share them until one
    changes (btrfs, XFS); whether it has.

    No hard link: a file that is one with another's changes with it.
    """
    try:
        with source.open("rb") as reader, part.open("wb") as writer:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
    except OSError:
        return False
    return True


def _chunks(source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as reader:
            while chunk := reader.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise MachineError.of(error, "a file can't be read", source) from None


def _small(path: Path) -> bytes:
    """A file's bytes; b"" without one, and for one that is larger than any index."""
    try:
        return path.read_bytes() if path.stat().st_size <= download.LARGEST else b""
    except OSError:
        return b""


def _other(url: str, actual: str) -> InputError:
    return InputError("checksum mismatch", where=url, got=f"SHA-256 {actual}")


def _lost(wanted: Exact, failed: Sequence[Exception]) -> DriftError | MachineError:
    """What is to be said of a file that no place gave: moved on, or not reached."""
    got = "; ".join(
        f"{error.where}: {error.got or error.message}"
        for error in failed
        if isinstance(error, (MachineError, InputError))
    )
    unreached = [
        error
        for error in failed
        if isinstance(error, MachineError) and not isinstance(error, GoneError)
    ]
    if unreached:
        hint = "is the network there? http_proxy, https_proxy and SSL_CERT_FILE are honoured"
        if any(error.got.startswith(("401 ", "403 ")) for error in unreached):
            hint = (
                "for wheels, the login in UV_DEFAULT_INDEX (https://USER:PASSWORD@HOST/...) is "
                "sent to that host; none of a netrc or a keyring"
            )
        return MachineError(
            "a locked file can't be fetched",
            where=wanted.where,
            got=got,
            expected=f"hash {wanted.digest}",
            hint=f"{hint}; --from BUNDLE takes it from an earlier bundle; what came is kept",
        )
    return DriftError(
        "upstream no longer has what is locked",
        where=wanted.where,
        got=got or "no address is known",
        expected=f"hash {wanted.digest}",
        hint="--from BUNDLE takes it from an earlier bundle; else `provision lock` again "
        "(`--upgrade sources` for newer indices)",
    )
