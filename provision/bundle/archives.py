"""A platform's package archives as a lock names them: their indices, and what is needed of them.

A lock names each suite by the hash of its signed release file, which names the hashes of all its
indices, which name those of all packages: so the distribution's own packages are locked too,
though their names are not in the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any

from debian.deb822 import Release

from provision import collection
from provision.bundle import needs
from provision.bundle.manifest import SOURCES
from provision.catalog.rows import PlatformRow, own_components
from provision.errors import DriftError, InputError
from provision.upstream import release
from provision.upstream.exact import Exact, Places
from provision.upstream.packages import Package
from provision.upstream.whole_index import IndexedPackage, WholeIndex, close

_MOVED = (
    "`provision lock --upgrade sources` locks the present indices; --from BUNDLE takes the locked "
    "ones from an earlier bundle"
)

Locked = Mapping[str, Mapping[str, Any]]


@dataclass
class Archives:
    """The archives of one platform, read; `made` and `fetched` are what a bundle has of them."""

    platform: PlatformRow
    index: WholeIndex = field(default_factory=WholeIndex)
    # NVIDIA's repositories, of which nothing but what is locked is taken.
    own: WholeIndex = field(default_factory=WholeIndex)
    suites: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    made: dict[str, bytes] = field(default_factory=dict)
    fetched: dict[str, Exact] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, indexed: IndexedPackage) -> None:
        """Adds a package's file, at the path that apt looks for it."""
        package = indexed.package
        name = package.filename.removeprefix("./")
        path = f"{folder(indexed.archive)}/{name}"
        url = f"{indexed.archive}/{name}"
        where = f"{self.platform.title}: {package.name} {package.version}"
        self.fetched[path] = Exact(package.sha256, (url,), where)
        self.sizes[path] = package.size


def folder(url: str) -> str:
    """An archive's folder in a bundle: its address, without a password."""
    return str(collection.stack_module("host.bundle_layout").archive(url))


def read(platform: PlatformRow, sources: Iterable[Mapping[str, Any]], places: Places) -> Archives:
    """The archives of the sources that a platform's stacks were locked from.

    Of a suite that the lock has of two dates the newer is taken. DriftError where upstream has
    moved on.
    """
    archives = Archives(platform)
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for source in sources:
        if not source["url"].startswith(("https://", "http://")):
            raise InputError(
                "an archive of a bundle is on a web server",  # a named pipe would never answer
                where="lock.yml, gpu_lock_details.sources",
                got=source["url"],
                expected="https:// or http://",
            )
        key = (source["url"], source["suite"])
        if key not in newest or _date(source) > _date(newest[key]):
            newest[key] = source
    for (url, suite), source in newest.items():
        if suite == "/":
            _flat(archives, url, source, places)
        else:
            _suite(archives, url, suite, source, places)
    if not any(suite != "/" for _, suite in newest):
        raise InputError(
            f"the lock names no suite of {platform.title}: nothing of its stacks comes from there",
            where="lock.yml, gpu_lock_details.sources",
            expected="a stack with the platform's own driver or CUDA",
            hint="of other stacks no bundle can be made yet (docs/bundle.md)",
        )
    return archives


def _date(source: Mapping[str, Any]) -> float:
    try:
        return parsedate_to_datetime(source["date"]).timestamp()
    except (ValueError, TypeError):
        return 0.0


def _suite(
    archives: Archives, url: str, suite: str, source: Mapping[str, Any], places: Places
) -> None:
    base, platform = f"{url}/dists/{suite}", archives.platform
    signed = _signed(archives, f"{base}/InRelease", f"{folder(url)}/dists/{suite}", source, places)
    listed = release.checksums(signed, where=f"{base}/InRelease")
    more = own_components(platform.distribution)
    for component in sorted({*source["components"], *more}):
        name = f"{component}/binary-{platform.package_architecture}/Packages"
        path = release.listed(listed, name)
        if not path:
            continue  # a mirror that has a part of it
        digest, _ = listed[path]
        urls = (f"{base}/{path}", f"{base}/{path.rpartition('/')[0]}/by-hash/SHA256/{digest}")
        where = f"{platform.title}: {suite} {component}"
        body = places.small(Exact(digest, urls, where))
        archives.made[f"{folder(url)}/dists/{suite}/{path}"] = body
        archives.index.add(
            release.unpacked(path, body, listed), archive=url, origin=f"{suite}/{component}"
        )
        archives.suites.setdefault(url, {}).setdefault(suite, []).append(component)


def _flat(archives: Archives, url: str, source: Mapping[str, Any], places: Places) -> None:
    signed = _signed(archives, f"{url}/InRelease", folder(url), source, places)
    listed = release.checksums(signed, where=url)
    path = release.listed(listed, "Packages")
    if not path:
        raise InputError("the repository has no index of packages", where=url, got="Packages")
    name = path.removeprefix("./")
    body = places.small(Exact(listed[path][0], (f"{url}/{name}",), f"{url} Packages"))
    archives.made[f"{folder(url)}/{name}"] = body
    archives.own.add(release.unpacked(path, body, listed), archive=url, origin=url)
    archives.suites.setdefault(url, {})["/"] = []


def _signed(
    archives: Archives, url: str, place: str, source: Mapping[str, Any], places: Places
) -> Release:
    """The locked release file, which becomes a part of the bundle as it was signed."""
    where = f"{archives.platform.title}: {url}"
    detached = url.removesuffix("InRelease") + "Release"
    try:
        body = places.small(Exact(source["sha256"], (url, detached), where))
    except DriftError as error:
        raise DriftError(
            "the archive has moved on since the lock was made",
            where=where,
            got=error.got,
            expected=f"the release file of {source['date']}, {error.expected}",
            hint=_MOVED,
        ) from None
    name = "InRelease" if body.startswith(b"-----BEGIN PGP SIGNED MESSAGE-----") else "Release"
    archives.made[f"{place}/{name}"] = body
    if name == "Release":
        archives.made[f"{place}/Release.gpg"] = places.beside(
            f"{detached}.gpg", f"{source['sha256']}.gpg", f"{place}/Release.gpg"
        )
    return Release(body.decode("utf-8", "replace"))


def add_stack(archives: Archives, stack: needs.Stack, locked: Locked, more: Sequence[str]) -> None:
    """Adds the packages of a stack, what they need, and what a bare host needs."""
    inside = {
        PurePosixPath(part["installer"]["directory"]).name
        for part in stack.values()
        if "installer" in part
    }
    outside = {n: row for n, row in locked.items() if row["source"] not in inside}
    locked_packages = _locked(archives, outside)
    versions: dict[str, Package] = {p.package.name: p.package for p in locked_packages}
    newest, all_versions = needs.packages(archives.platform, stack)
    index = archives.index
    roots = [*locked_packages]
    for name in [*newest, *more, *all_versions]:
        if not index.versions(name):
            raise InputError(
                "the locked archives have no such package",
                where=archives.platform.title,
                got=name,
                hint="--package takes names of the distribution's packages" if name in more else "",
            )
    roots += [indexed for name in all_versions for indexed in index.versions(name)]
    roots += [
        index.versions(name)[0] for name in [*newest, *more, *index.base()] if name not in versions
    ]
    for indexed in close(index, roots, versions).values():
        archives.take(indexed)


def _locked(archives: Archives, locked: Locked) -> list[IndexedPackage]:
    """The locked packages, where the indices have them by name, version and hash."""
    present, gone = [], []
    for name, row in locked.items():
        candidates = [*archives.index.versions(name), *archives.own.versions(name)]
        same = [candidate for candidate in candidates if candidate.package.sha256 == row["sha256"]]
        if same:
            present.append(same[0])
        else:
            gone.append(f"{name} {row['version']}")
    if gone:
        raise DriftError(
            "upstream no longer has what is locked",
            where=archives.platform.title,
            got=f"no index has {', '.join(gone)}",
            hint="`provision lock` takes the nearest that still fits",
        )
    return present


def entries(archives: Iterable[Archives]) -> tuple[Mapping[str, Any], ...]:
    """The archives of a bundle, as its manifest has them."""
    suites: dict[str, dict[str, list[str]]] = {}
    for archive in archives:
        for url, its in archive.suites.items():
            suites.setdefault(url, {}).update(its)
    return tuple(
        {"url": _bare(url), "path": folder(url), "suites": suites[url]} for url in sorted(suites)
    )


def _bare(url: str) -> str:
    """An address without a password."""
    return str(collection.stack_module("host.apt").bare(url))


# In a file of sources, in place of where the bundle is: file:/media/stick/lab, http://...
PLACE = "@BUNDLE@"


def sources(archives: Archives) -> tuple[str, bytes]:
    """(path, bytes) of apt's sources of a platform's suites, for a host that has the bundle.

    Signed as ever, with an index that may be older than its signer wanted; without translations
    and other architectures, which a bundle has not.
    """
    layout = collection.stack_module("host.bundle_layout")
    keyring = layout.keyring(archives.platform.distribution)
    text = ""
    for url, suites in archives.suites.items():
        for suite, components in suites.items():
            if suite != "/":
                text += (
                    f"Types: deb\nURIs: {PLACE}/{folder(url)}\nSuites: {suite}\n"
                    f"Components: {' '.join(components)}\n"
                    f"Architectures: {archives.platform.package_architecture}\nLanguages: none\n"
                    f"Signed-By: {keyring}\nCheck-Valid-Until: no\n\n"
                )
    return f"{SOURCES}/{archives.platform.id}.sources", text.encode()
