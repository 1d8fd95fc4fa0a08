"""Reads the signed package indices of a platform's archives.

Everything is verified before it is used: an InRelease by gpgv against pinned key fingerprints, an
index by the SHA-256 in its InRelease.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, MutableSequence
from dataclasses import dataclass
from pathlib import Path

from debian.deb822 import Release

from provision.catalog.rows import Archive, PlatformRow
from provision.errors import InputError, MachineError
from provision.upstream.download import Fetch, GoneError, cached, fetch, keep
from provision.upstream.mirrors import HELP
from provision.upstream.packages import Indices, Package, Source, parse
from provision.upstream.release import (
    SNAPSHOTS,
    check_valid,
    checksums,
    is_snapshot,
    listed,
    unpacked,
    verify,
)


def read(
    platform: PlatformRow,
    keys: Mapping[str, str],
    *,
    cache: Path,
    get: Fetch = fetch,
    progress: Callable[[str], None] = lambda _: None,
    gone: MutableSequence[Archive] | None = None,
) -> Indices:
    """The verified indices of the platform's archives.

    A suite is fetched from its `url`, then from its `mirrors`, with the same pinned keys; its
    source names the place that answered. A suite that none has any more is added to `gone`, where
    that is given, and otherwise a GoneError.
    """
    packages: list[Package] = []
    sources = []
    reader = _Reader(platform, keys, cache, get, progress)
    for archive in platform.archives:
        try:
            suite_packages, source = reader.archive(archive)
        except GoneError:
            if gone is None:
                raise
            gone.append(archive)
            continue
        packages += suite_packages
        sources.append(source)
    return Indices(tuple(packages), tuple(sources))


@dataclass(frozen=True)
class _Reader:
    """Reads a platform's archives."""

    platform: PlatformRow
    keys: Mapping[str, str]
    cache: Path
    get: Fetch
    progress: Callable[[str], None]

    def archive(self, archive: Archive) -> tuple[list[Package], Source]:
        """The packages from the first place that answers; a wrong signature is an error at once."""
        failed: list[MachineError] = []
        places = [archive.url, *archive.mirrors]
        for url in places:
            try:
                return self._suite(archive, url)
            except MachineError as error:
                if not error.where.startswith(url):
                    raise  # this machine's own problem: no gpgv
                failed.append(error)
        if len(failed) == 1 and not isinstance(failed[0], GoneError):
            raise failed[0]
        # A place that can't be reached may still have the suite.
        nowhere = all(isinstance(error, GoneError) for error in failed)
        raise (GoneError if nowhere else MachineError)(
            "the suite is gone" if nowhere else "no place has the suite",
            where=f"{self.platform.title}, {archive.suite}",
            got="; ".join(f"{error.where}: {error.got}" for error in failed),
            expected=" or ".join(places),
            hint=f"{HELP}; an existing lock.yml needs none of this",
        )

    def _suite(self, archive: Archive, url: str) -> tuple[list[Package], Source]:
        """The packages of one suite from one place."""
        packages: list[Package] = []
        base = f"{url}/dists/{archive.suite}"
        self.progress(f"{archive.label}: InRelease")
        raw = self.get(f"{base}/InRelease")
        text, pinned = verify(raw, archive.model_copy(update={"url": url}), self.keys)
        release = Release(text)
        if not is_snapshot(url):
            check_valid(
                release,
                where=f"{base}/InRelease",
                hint="a mirror that no longer follows, or a proxy that keeps old files? "
                f"{SNAPSHOTS}",
            )
        indices = checksums(release, where=f"{base}/InRelease")
        for component in archive.components:
            folder = f"{component}/binary-{self.platform.package_architecture}"
            path = listed(indices, f"{folder}/Packages")
            if not path:
                if archive.partial:
                    continue
                raise InputError(
                    "the archive has no such index", where=base, got=f"{folder}/Packages.xz"
                )
            digest, _size = indices[path]
            self.progress(f"{archive.label}: {component}")
            body = cached(f"{base}/{path}", digest, self.cache, self.get)
            packages += parse(unpacked(path, body, indices), f"{archive.label}/{component}")
        if archive.partial and not packages:
            raise InputError(
                "the mirror has no package of the platform",
                where=base,
                expected=f"{' or '.join(archive.components)} for "
                f"{self.platform.package_architecture}",
            )
        digest = hashlib.sha256(raw).hexdigest()
        keep(raw, digest, self.cache)  # for a bundle of this lock, when the archive has moved on
        source = Source(
            url,
            archive.suite,
            tuple(archive.components),
            tuple(pinned),
            release.get("Date", ""),
            digest,
        )
        return packages, source
