"""The user's own mirrors, from which a lock is made instead of NVIDIA's and the archives' sites.

A lab whose machines reach only its own mirror has to lock and install from there: so the address
and the key of a mirror of NVIDIA's go into the lock. Nothing is trusted without a key: a mirror
keeps the publisher's signatures, or its own key is given.

Pure: addresses and keys in, addresses, keys and rows of the catalog out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provision import collection
from provision.catalog import Catalog
from provision.catalog.rows import PlatformRow
from provision.errors import InputError
from provision.upstream import keys

NVIDIA = (
    "https://developer.download.nvidia.com",
    "https://us.download.nvidia.com",
    "https://nvidia.github.io",
)
# The hint where the archive no longer has a version.
HELP = (
    "a mirror that keeps it, as `mirrors` in the platform's row of the catalog "
    "(snapshot.debian.org keeps all of Debian's)"
)


def option_for(url: str) -> str:
    """The option of `provision lock` that fetches a URL from a mirror."""
    if url.startswith(tuple(f"{site}/" for site in NVIDIA)):
        return "--nvidia-mirror URL"
    return "--archive-mirror PLATFORM=URL (--nvidia-mirror URL for NVIDIA's)"


@dataclass(frozen=True)
class ArchiveMirror:
    """A mirror of a platform's archive; without `suites` it has all of them."""

    url: str
    suites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mirrors:
    """The user's mirrors; a key is armored text, "" for the publisher's own."""

    nvidia: str = ""
    nvidia_key: str = ""
    archives: Mapping[str, ArchiveMirror] = field(default_factory=dict)
    archive_key: str = ""

    def at(self, url: str) -> str:
        """The URL that a file of NVIDIA's is fetched from."""
        for site in NVIDIA if self.nvidia else ():
            if url.startswith(f"{site}/"):
                return self.nvidia.rstrip("/") + url.removeprefix(site)
        return url

    def of(self, platform: PlatformRow) -> PlatformRow:
        """The platform with its archives' mirror, which need not have all of them."""
        mirror = self.archives.get(platform.id)
        if mirror is None:
            return platform
        more = key_fingerprints(self.archive_key)
        archives = [
            archive.model_copy(
                update={
                    "url": mirror.url,
                    "mirrors": [],
                    "signed_by": [*archive.signed_by, *more],
                    "partial": True,
                }
            )
            for archive in platform.archives
            if archive.suite in mirror.suites or not mirror.suites
        ]
        return platform.model_copy(update={"archives": archives})

    def keys(self, publishers: Mapping[str, str]) -> Mapping[str, str]:
        """The keys that an archive's index is verified with."""
        return {**publishers, "mirror": self.archive_key} if self.archive_key else publishers


def key_fingerprints(armored: str) -> list[str]:
    """The fingerprints of an armored key; [] for ""."""
    return keys.fingerprints(keys.dearmor(armored)) if armored else []


def parse(
    catalog: Catalog,
    *,
    nvidia: str = "",
    nvidia_key: Path | None = None,
    archives: Sequence[str] = (),
    archive_key: Path | None = None,
) -> Mirrors:
    """The mirrors in the options of `provision lock`. InputError for an unusable option."""
    if nvidia:
        _check_url(nvidia, "--nvidia-mirror")
    if archive_key is not None and not archives:
        raise InputError("--archive-key is the key of a mirror", expected="--archive-mirror too")
    platforms = {row.id: row for row in catalog.platforms}
    mirrors = {}
    for text in archives:
        name, _, value = text.partition("=")
        url, *suites = value.split(",")
        where = f"--archive-mirror {_bare(text)}"
        if name not in platforms:
            raise InputError(
                "there is no such platform in the catalog",
                where=where,
                got=name,
                expected=f"PLATFORM=URL[,SUITE...]; a platform is one of {', '.join(platforms)}",
            )
        _check_url(url, where)
        known_suites = [archive.suite for archive in platforms[name].archives]
        for suite in suites:
            if suite not in known_suites:
                raise InputError(
                    "the platform has no such suite",
                    where=where,
                    got=suite,
                    expected=" or ".join(known_suites),
                )
        mirrors[name] = ArchiveMirror(url.rstrip("/"), tuple(suites))
    return Mirrors(nvidia, _key(nvidia_key), mirrors, _key(archive_key))


def _check_url(url: str, where: str) -> None:
    """InputError for what is no address, and for one with a login; no message has its password."""
    if url != _bare(url):
        raise InputError(
            "a mirror's address can't have a login in it: `provision lock` would not send it",
            where=where,
            got=_bare(url),
            expected="an address with no user and no password",
            hint="a mirror that this machine can read without them, or a proxy that adds them",
        )
    if not url.startswith(("https://", "http://")) or re.search(r"\s", url):
        raise InputError(
            "a mirror is a URL", where=where, got=url, expected="https://mirror.example.org/nvidia"
        )


def _bare(text: str) -> str:
    """An address without a user and a password."""
    return str(collection.stack_module("host.apt").bare(text))


def _key(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError.of(error, "the key can't be read", path) from None
    return keys.as_armored(data, where=str(path))
