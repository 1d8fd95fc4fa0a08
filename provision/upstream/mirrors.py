"""Mirrors of the user's own: where a lock is made from instead of NVIDIA's and the archives' sites.

A lab whose machines reach no site but its own mirror has to lock from there, and its hosts have to
install from there: so the address and the key of a mirror of NVIDIA's go into the lock. Nothing is
believed without a key: a mirror keeps the publisher's signatures, or its own key is given.

Pure: addresses and keys in, addresses, keys and rows of the catalog out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provision.catalog import Catalog, PlatformRow
from provision.errors import InputError
from provision.upstream import keys

NVIDIA = (
    "https://developer.download.nvidia.com",
    "https://us.download.nvidia.com",
    "https://nvidia.github.io",
)
# What helps where the archive has moved on.
HELP = (
    "a mirror that keeps it, as `mirrors` in the platform's row of the catalog "
    "(snapshot.debian.org keeps all of Debian's)"
)


def option_for(url: str) -> str:
    """The option of `provision lock` by which a file comes from another place."""
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
    """What was given; keys are armored, "" where the publisher's own holds."""

    nvidia: str = ""
    nvidia_key: str = ""
    archives: Mapping[str, ArchiveMirror] = field(default_factory=dict)
    archive_key: str = ""

    def at(self, url: str) -> str:
        """Where a file of NVIDIA's is fetched from."""
        for site in NVIDIA if self.nvidia else ():
            if url.startswith(f"{site}/"):
                return self.nvidia.rstrip("/") + url.removeprefix(site)
        return url

    def of(self, platform: PlatformRow) -> PlatformRow:
        """A platform with its archives where its mirror has them; it need not have all of them."""
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

    def keys(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """The keys that an archive's index is verified with."""
        return {**known, "mirror": self.archive_key} if self.archive_key else known


def key_fingerprints(armored: str) -> list[str]:
    """The fingerprints of an armored key; none of ""."""
    return keys.fingerprints(keys.dearmor(armored)) if armored else []


def parse(
    catalog: Catalog,
    *,
    nvidia: str = "",
    nvidia_key: Path | None = None,
    archives: Sequence[str] = (),
    archive_key: Path | None = None,
) -> Mirrors:
    """The options of `provision lock`. InputError names the one that can't be used."""
    if nvidia:
        _check_url(nvidia, "--nvidia-mirror")
    if archive_key is not None and not archives:
        raise InputError("--archive-key is the key of a mirror", expected="--archive-mirror too")
    platforms = {row.id: row for row in catalog.platforms}
    found = {}
    for text in archives:
        name, _, rest = text.partition("=")
        url, *suites = rest.split(",")
        where = f"--archive-mirror {text}"
        if name not in platforms:
            raise InputError(
                "there is no such platform in the catalog",
                where=where,
                got=name,
                expected=f"PLATFORM=URL[,SUITE...]; a platform is one of {', '.join(platforms)}",
            )
        _check_url(url, where)
        known = [archive.suite for archive in platforms[name].archives]
        for suite in suites:
            if suite not in known:
                raise InputError(
                    "the platform has no such suite",
                    where=where,
                    got=suite,
                    expected=" or ".join(known),
                )
        found[name] = ArchiveMirror(url.rstrip("/"), tuple(suites))
    return Mirrors(nvidia, _key(nvidia_key), found, _key(archive_key))


def _check_url(url: str, where: str) -> None:
    if not url.startswith(("https://", "http://")) or any(one.isspace() for one in url):
        raise InputError(
            "a mirror is a URL", where=where, got=url, expected="https://mirror.example.org/nvidia"
        )


def _key(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError("the key can't be read", where=str(path), got=str(error)) from None
    return keys.as_armored(data, where=str(path))
