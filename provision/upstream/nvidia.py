"""Reads NVIDIA's network repositories, local installers and .run files.

A local installer is a package with a whole repository inside, which is read without installing it.
Everything is verified before it is used: an index by gpgv with a key of a pinned fingerprint, or
(a local installer that brings its own key) by the file's hash, which is locked.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from debian.arfile import ArError
from debian.deb822 import Release
from debian.debfile import DebError, DebFile

from provision.catalog import Catalog
from provision.catalog.rows import DriverRow, NvidiaSourceRow
from provision.errors import InputError
from provision.upstream import download, release
from provision.upstream.download import Fetch, GoneError, cached, digest_like, fetch
from provision.upstream.keys import read as read_keys
from provision.upstream.mirrors import Mirrors
from provision.upstream.packages import Package, Repository, Runfile, Source, parse

_DEB = b"!<arch>\n"
_SCRIPT = b"#!"
# The Label of NVIDIA's repositories, by which apt's preferences on the hosts keep their drivers
# away; NVIDIA's own cuda-*.pin prefers them by it (Pin: release l=NVIDIA CUDA).
CUDA_LABEL = "NVIDIA CUDA"
# In bytes: larger than any index or key, too small to fill a disk.
_LARGEST = 1 << 28
MIRROR_HINT = "`--nvidia-mirror URL` locks from a mirror, `--nvidia-key FILE` with a key of its own"


@dataclass(frozen=True)
class Reader:
    """Reads NVIDIA's files through a mirror and a cache, with the catalog's keys."""

    catalog: Catalog
    mirrors: Mirrors
    cache: Path
    get: Fetch = fetch
    progress: Callable[[str], None] = lambda _: None
    # URL -> SHA-256 of the files that a lock has already.
    locked_hashes: Mapping[str, str] = field(default_factory=dict)

    def repository(self, row: NvidiaSourceRow) -> Repository:
        """A repository of the catalog, on the network or in a local installer."""
        return self._network(row) if row.kind == "network" else self._local(row)

    def runfile(self, driver: DriverRow) -> Runfile:
        """A driver's installer; it is fetched only where its hash is unknown."""
        url = self.mirrors.at(driver.url)
        sha256 = driver.sha256 or self.locked_hashes.get(url, "")
        if not sha256:
            _, sha256 = download.file_of(
                url, cache=self.cache, begins=_SCRIPT, progress=self.progress
            )
        return Runfile(url, sha256)

    def keyed(self, url: str, key: str, signed_by: Sequence[str], label: str) -> Repository:
        """A flat repository whose key is published beside it.

        `key`: its URL; `signed_by`: its fingerprints; `label`: the packages' `source` in the lock.
        """
        url, key = self.mirrors.at(url), self.mirrors.at(key)
        places = dict.fromkeys(signed_by, key)
        return self._fetched(url, label, lambda: self._keys(places))

    def _network(self, row: NvidiaSourceRow) -> Repository:
        url = self.mirrors.at(row.url)
        names = {key.fingerprint: key.file for key in self.catalog.nvidia_keys}
        places = {fingerprint: f"{url}/{names[fingerprint]}" for fingerprint in row.signed_by or ()}
        label = f"cuda-{row.platform}-{row.architecture}"
        return self._fetched(url, label, lambda: self._keys(places), release_label=CUDA_LABEL)

    def _fetched(
        self,
        url: str,
        label: str,
        keys_of: Callable[[], dict[str, str]],
        *,
        release_label: str = "",
    ) -> Repository:
        """A flat repository; its keys are fetched only where it has a signed index."""
        self.progress(f"{label}: InRelease")
        files = self._signed_files(url)
        keys = keys_of()
        signed, signers = self._verified(files, keys, url)
        if release_label:
            _check_label(signed, release_label, url)
        path, digest, listed = _index(signed, url)
        self.progress(f"{label}: Packages")
        body = cached(f"{url}/{path.removeprefix('./')}", digest, self.cache, self.get)
        packages = parse(release.unpacked(path, body, listed), label)
        # For a bundle of this lock, when the repository has moved on.
        named = hashlib.sha256(next(iter(files.values()))).hexdigest()
        for name, data in files.items():
            download.keep(data, named + (".gpg" if name == "Release.gpg" else ""), self.cache)
        return _repository(url, signed, files, keys, signers, packages)

    def _local(self, row: NvidiaSourceRow) -> Repository:
        url = self.mirrors.at(row.url)
        file, sha256 = download.file_of(
            url, cache=self.cache, sha256=row.sha256 or "", begins=_DEB, progress=self.progress
        )
        self.progress(f"{file.name}: its index")
        directory, inside = _inside(file)
        files = {name: inside[name] for name in _SIGNED if name in inside}
        if "InRelease" in files:
            files = {"InRelease": files["InRelease"]}
        keys = self._keys_inside(row, url, inside)
        signed, signers = self._verified(files, keys, url)
        _check_label(signed, CUDA_LABEL, url)
        path, digest, listed = _index(signed, url)
        body = inside.get(path.removeprefix("./"), b"")
        if digest_like(body, digest) != digest:
            raise InputError(
                "checksum mismatch: not the index that was signed",
                where=url,
                got=f"{directory}/{path}",
            )
        packages = parse(release.unpacked(path, body, listed), PurePosixPath(directory).name)
        return _repository(
            url, signed, files, keys, signers, packages, sha256=sha256, directory=directory
        )

    def _signed_files(self, url: str) -> dict[str, bytes]:
        """Name -> bytes of InRelease, or of Release and Release.gpg without one."""
        try:
            files = {"InRelease": self.get(f"{url}/InRelease")}
        except GoneError as error:
            try:
                files = {name: self.get(f"{url}/{name}") for name in ("Release", "Release.gpg")}
            except GoneError:
                raise GoneError(
                    "there is no signed index in NVIDIA's repository",
                    where=error.where,
                    got=error.got,
                    expected="InRelease, or Release and Release.gpg",
                    hint=MIRROR_HINT,
                ) from None
        for name, data in files.items():
            _check_no_page(data, f"{url}/{name}")
        return files

    def _verified(
        self, files: Mapping[str, bytes], keys: Mapping[str, str], url: str
    ) -> tuple[Release, list[str]]:
        """(the signed Release, the fingerprints that signed it), still valid."""
        if not files:
            raise InputError(
                "there is no signed index in the installer",
                where=url,
                expected="InRelease, or Release and Release.gpg, in /var/cuda-repo-*",
            )
        text, signers = release.verified(
            files, keys, list(keys), where=f"{url} {next(iter(files))}", hint=MIRROR_HINT
        )
        signed = Release(text)
        release.check_valid(signed, where=url, hint="a mirror that no longer follows?")
        return signed, signers

    def _keys(self, places: Mapping[str, str]) -> dict[str, str]:
        """Fingerprint -> armored key: the mirror's own, and pinned keys (fingerprint -> URL)."""
        keys = self._own_key()
        for fingerprint, url in places.items():
            try:
                keys[fingerprint] = _pinned(self.get(url), fingerprint, url)
            except (InputError, GoneError):
                if not self.mirrors.nvidia_key:  # a mirror with a key of its own needs no other
                    raise
        return keys

    def _keys_inside(
        self, row: NvidiaSourceRow, url: str, inside: Mapping[str, bytes]
    ) -> dict[str, str]:
        """As `_keys`, from an installer, which has a verified hash and may bring its own key."""
        keys = self._own_key()
        for name, data in inside.items():
            if not name.endswith((".pub", ".gpg", ".asc")) or name == "Release.gpg":
                continue
            for key in read_keys(data, where=f"{url} {name}"):
                if row.signed_by is None or key.fingerprint in row.signed_by:
                    keys[key.fingerprint] = key.armored
        if not keys:
            raise InputError(
                "the installer lacks the key that should sign it",
                where=url,
                got=", ".join(n for n in inside if n.endswith((".pub", ".gpg", ".asc"))) or "none",
                expected=" or ".join(row.signed_by or ["a key in its repository"]),
                hint=MIRROR_HINT,
            )
        return keys

    def _own_key(self) -> dict[str, str]:
        text = self.mirrors.nvidia_key
        keys = read_keys(text.encode(), where="--nvidia-key") if text else []
        return {key.fingerprint: key.armored for key in keys}


def check_locked_keys(stacks: Mapping[str, Mapping[str, Any]], *, where: str) -> None:
    """InputError where a repository's key in a lock has other keys than the pinned one.

    An older lock can have a key file as it was served, with a second key behind the pinned one.
    """
    for parts in stacks.values():
        for part in parts.values():
            for word in ("repository", "installer"):
                source = part.get(word) or {}
                if "key" not in source:
                    continue
                keys = read_keys(source["key"].encode(), where=f"{where}, key of {source['url']}")
                if not {key.fingerprint for key in keys} <= set(source["fingerprints"]):
                    raise InputError(
                        "a repository's key in the lock is not the pinned one alone",
                        where=f"{where}, {source['url']}",
                        got=", ".join(key.fingerprint for key in keys),
                        expected=" and ".join(source["fingerprints"]),
                        hint="`provision lock` reads it again",
                    )


def _repository(
    url: str,
    signed: Release,
    files: Mapping[str, bytes],
    keys: Mapping[str, str],
    signers: Sequence[str],
    packages: Sequence[Package],
    *,
    sha256: str = "",
    directory: str = "",
) -> Repository:
    release_file = next(iter(files.values()))
    date = signed.get("Date", "")
    source = Source(url, "/", (), tuple(signers), date, hashlib.sha256(release_file).hexdigest())
    # The signing key alone: hosts would trust any other key in the file, too.
    key = keys[signers[0]]
    return Repository(url, "/", key, (signers[0],), tuple(packages), source, sha256, directory)


def _pinned(data: bytes, fingerprint: str, where: str) -> str:
    """The armored key of a key file. InputError where it is not the one with this fingerprint."""
    _check_no_page(data, where)
    keys = read_keys(data, where=where)
    if [key.fingerprint for key in keys] != [fingerprint]:
        raise InputError(
            "the key is not NVIDIA's pinned key",
            where=where,
            got=f"fingerprint {' and '.join(key.fingerprint for key in keys)}",
            expected=f"fingerprint {fingerprint}",
            hint=MIRROR_HINT,
        )
    return keys[0].armored


def _check_label(signed: Release, expected: str, url: str) -> None:
    """InputError for a repository with another Label than the hosts' pins go by.

    A later change of the label apt itself refuses (apt-secure(8), "Information changes").
    """
    label = signed.get("Label", "")
    if label != expected:
        raise InputError(
            "the repository's label is not the one that apt's pins on the hosts go by",
            where=url,
            got=f"Label: {label}" if label else "no Label",
            expected=f"Label: {expected}",
            hint="with another one apt would take any package from there, drivers too; a mirror "
            "that signs anew has to keep NVIDIA's label",
        )


def _check_no_page(data: bytes, where: str) -> None:
    if data.lstrip()[:1] == b"<":
        raise InputError(
            "a web page came instead of the file",
            where=where,
            got=repr(data.lstrip()[:60].decode(errors="replace")),
            expected="an index or a key of NVIDIA's repository",
            hint=f"a login page or a proxy answered; {MIRROR_HINT}",
        )


def _index(signed: Release, url: str) -> tuple[str, str, dict[str, tuple[str, int]]]:
    """(path, checksum) of a repository's index of packages, and all that its Release lists."""
    checksums = release.checksums(signed, where=url)
    path = release.listed(checksums, "Packages")
    if not path:
        raise InputError("the repository has no index of packages", where=url, got="Packages")
    return path, checksums[path][0], checksums


_SIGNED = ("InRelease", "Release", "Release.gpg")


def _inside(file: Path) -> tuple[str, dict[str, bytes]]:
    """(the repository's directory in a local installer, name -> bytes of its indices and keys)."""
    directories: dict[str, dict[str, bytes]] = {}
    try:
        with DebFile(str(file)) as deb:
            archive: tarfile.TarFile = deb.data.tgz()
            for member in archive:
                path = PurePosixPath("/", member.name.removeprefix("."))
                name = path.name
                index = name in _SIGNED or name.startswith("Packages")
                if not member.isfile() or member.size > _LARGEST:
                    continue
                if not index and not name.endswith((".pub", ".gpg", ".asc")):
                    continue
                stream = archive.extractfile(member)
                if stream is not None:
                    directories.setdefault(str(path.parent), {})[name] = stream.read()
    except (DebError, ArError, tarfile.TarError, OSError, EOFError) as error:
        raise InputError.of(
            error, "the installer can't be read", file, "remove it, and it is fetched anew"
        ) from None
    for directory, files in directories.items():
        # Hosts read, mark and remove this directory: no package may name any other.
        of_nvidia = re.fullmatch(r"/var/cuda-repo-[\w.+-]+", directory, re.ASCII)
        if of_nvidia and any(name.startswith("Packages") for name in files):
            return directory, files
    raise InputError(
        "there is no repository in the package",
        where=str(file),
        expected="Packages and InRelease in /var/cuda-repo-*",
        hint="a local installer is named cuda-repo-<platform>-<release>-local_...deb",
    )
