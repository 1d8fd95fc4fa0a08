"""Holds the catalog's rows for Debian against Debian's own signed indices.

    python scripts/catalog_debian.py [--cache DIR] [--record DIR] [PLATFORM...]

Every driver is closed with every CUDA of its platform, as a lock would be; every soname and file
that a CUDA row promises must be in Contents as a file of the package the row names. Says what it
found, and ends with 1 where a row does not hold. --record writes the packages of all closures, and
what else the indices have under these names, as the cut indices that the unit tests read.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from debian.deb822 import Release

from provision import catalog
from provision.catalog import Archive, CudaRow, DriverRow, PlatformRow
from provision.errors import ProvisionError
from provision.upstream import debian, download, release
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Package

LIBRARIES = "usr/lib/x86_64-linux-gnu"
# What the closure reads of a stanza, in the order in which Debian writes it.
FIELDS = (
    "Package",
    "Source",
    "Version",
    "Provides",
    "Pre-Depends",
    "Depends",
    "Breaks",
    "Conflicts",
    "Filename",
    "Size",
    "SHA256",
)


def closure(universe: Universe, driver: DriverRow, cuda: CudaRow) -> dict[str, Package]:
    """Everything that a lock of these two rows would name."""
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    found: dict[str, Package] = {}
    for roots in (driver.userspace, driver.kernel, driver.desktop, cuda.runtime, cuda.toolkit):
        found.update(close(universe, roots, branch, found))
    return found


def fetched(archive: Archive, path: str, cache: Path) -> bytes:
    """A file of the archive that its signed InRelease names; b"" where it names none."""
    base = f"{archive.url}/dists/{archive.suite}"
    text, _ = release.verify(download.fetch(f"{base}/InRelease"), archive, catalog.keys())
    known = release.checksums(Release(text), where=f"{base}/InRelease")
    digest, _ = known.get(path, ("", 0))
    if not digest:
        return b""
    kept = cache / digest
    body = kept.read_bytes() if kept.exists() else download.fetch(f"{base}/{path}")
    if hashlib.sha256(body).hexdigest() != digest:
        raise ProvisionError("not the file that was signed", where=f"{base}/{path}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(body)
    return body


def contents(platform: PlatformRow, cache: Path) -> dict[str, set[str]]:
    """Path without its first slash -> the packages that have it, of the platform's own release."""
    found: dict[str, set[str]] = {}
    for component in platform.archives[0].components:
        for architecture in (platform.package_architecture, "all"):
            body = fetched(platform.archives[0], f"{component}/Contents-{architecture}.gz", cache)
            for line in gzip.decompress(body).decode("utf-8").splitlines() if body else []:
                path, _, owners = line.rpartition(" ")
                names = {owner.rpartition("/")[2] for owner in owners.split(",")}
                found.setdefault(path.rstrip(), set()).update(names)
    return found


def promises(cuda: CudaRow) -> Iterator[tuple[str, str]]:
    """(path, package) of everything that must be there once the row is installed."""
    for soname, package in cuda.sonames.items():
        yield f"{LIBRARIES}/{soname}", package
    for file in cuda.files.values():
        yield file.path.lstrip("/"), file.package


def record(platform: PlatformRow, names: set[str], cache: Path, where: Path) -> None:
    """Every stanza under one of these names, cut to what the closure reads."""
    for archive in platform.archives:
        for component in archive.components:
            path = f"{component}/binary-{platform.package_architecture}/Packages.xz"
            text = lzma.decompress(fetched(archive, path, cache)).decode("utf-8")
            cut = []
            for stanza in text.split("\n\n"):
                fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", stanza, re.MULTILINE))
                if fields.get("Package") in names:
                    cut.append("".join(f"{k}: {fields[k]}\n" for k in FIELDS if k in fields))
            if cut:
                file = where / f"{archive.label}-{component}.packages"
                file.write_text("\n".join(cut), encoding="utf-8")


def check(platform: PlatformRow, cache: Path, where: Path | None) -> list[str]:
    """What does not hold of the platform's rows."""
    rows = catalog.load()
    universe = Universe.of(debian.read(platform, catalog.keys(), cache=cache).packages)
    drivers = [row for row in rows.drivers if row.platform == platform.id]
    cudas = [row for row in rows.cuda if row.platform == platform.id]
    wrong = []
    names: set[str] = set()
    for driver in drivers:
        for cuda in cudas:
            what = f"{platform.id}: driver {driver.version}, CUDA {cuda.version}"
            try:
                found = closure(universe, driver, cuda)
            except ProvisionError as error:
                wrong.append(f"{what}: {error.message} (there is {error.got})")
                continue
            names |= set(found)
            suite = found[driver.userspace[0]].origin.partition("/")[0]
            if suite != driver.suite:
                wrong.append(f"{what}: the driver lies in {suite}, the row says {driver.suite}")
            size = sum(package.size for package in found.values()) // 1_000_000
            print(f"{what}: {len(found)} packages, {size} MB, driver of {suite}")
    owners = contents(platform, cache)
    for cuda in cudas:
        for path, package in promises(cuda):
            if package not in owners.get(path, set()):
                had = ", ".join(sorted(owners.get(path, set()))) or "no package"
                wrong.append(f"{platform.id}: /{path} is of {had}, not of {package}")
        print(f"{platform.id}: CUDA {cuda.version}: {len(list(promises(cuda)))} files looked for")
    if where is not None:
        record(platform, names, cache, where)
    return wrong


def main() -> int:
    """0 where all rows hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=download.cache_directory())
    parser.add_argument("--record", type=Path)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM")
    options = parser.parse_args()
    wrong = []
    for platform in catalog.load().platforms:
        if platform.distribution == "debian" and platform.id in (
            options.platforms or [platform.id]
        ):
            wrong += check(platform, options.cache, options.record)
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
