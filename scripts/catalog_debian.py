"""Checks the catalog's rows for Debian against Debian's signed indices.

    python scripts/catalog_debian.py [--cache DIR] [--record DIR] [PLATFORM...]

Computes the closure of every driver with every CUDA of its platform, as for a lock. Every
soname and file of a CUDA row must be in Contents, as a file of the package the row names. Exits
with 1 where a row is wrong. --record writes the packages of all closures, and all stanzas under
their names, as the reduced indices that the unit tests read.
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
from provision.catalog.rows import Archive, CudaRow, DriverRow, PlatformRow
from provision.errors import ProvisionError
from provision.upstream import debian, download, release
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Package

LIBRARIES = "usr/lib/x86_64-linux-gnu"
# The fields that the closure reads, in Debian's order.
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
    """{name: package} of all packages that a lock of these two rows has."""
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    packages: dict[str, Package] = {}
    for roots in (driver.userspace, driver.kernel, driver.desktop, cuda.runtime, cuda.toolkit):
        packages.update(close(universe, roots, branch, packages))
    return packages


def fetched(archive: Archive, path: str, cache: Path) -> bytes:
    """A file of the archive, verified by its signed InRelease; b"" where that does not list it."""
    base = f"{archive.url}/dists/{archive.suite}"
    text, _ = release.verify(download.fetch(f"{base}/InRelease"), archive, catalog.keys())
    signed = release.checksums(Release(text), where=f"{base}/InRelease")
    digest, _ = signed.get(path, ("", 0))
    if not digest:
        return b""
    cached = cache / digest
    body = cached.read_bytes() if cached.exists() else download.fetch(f"{base}/{path}")
    if hashlib.sha256(body).hexdigest() != digest:
        raise ProvisionError("not the file that was signed", where=f"{base}/{path}")
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_bytes(body)
    return body


def contents(platform: PlatformRow, cache: Path) -> dict[str, set[str]]:
    """{path without its first slash: packages that contain it} in the platform's release."""
    owners: dict[str, set[str]] = {}
    for component in platform.archives[0].components:
        for architecture in (platform.package_architecture, "all"):
            body = fetched(platform.archives[0], f"{component}/Contents-{architecture}.gz", cache)
            for line in gzip.decompress(body).decode("utf-8").splitlines() if body else []:
                path, _, names = line.rpartition(" ")
                packages = {owner.rpartition("/")[2] for owner in names.split(",")}
                owners.setdefault(path.rstrip(), set()).update(packages)
    return owners


def promises(cuda: CudaRow) -> Iterator[tuple[str, str]]:
    """(path, package) of all files that the row promises."""
    for soname, package in cuda.sonames.items():
        yield f"{LIBRARIES}/{soname}", package
    for file in cuda.files.values():
        yield file.path.lstrip("/"), file.package


def record(platform: PlatformRow, names: set[str], cache: Path, where: Path) -> None:
    """Writes all stanzas under these names, with only the FIELDS, to the folder `where`."""
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
    """What is wrong in the platform's rows."""
    rows = catalog.load()
    universe = Universe.of(debian.read(platform, catalog.keys(), cache=cache).packages)
    drivers = [row for row in rows.drivers if row.platform == platform.id]
    cudas = [row for row in rows.cuda if row.platform == platform.id]
    wrong = []
    names: set[str] = set()
    for driver in drivers:
        for cuda in cudas:
            subject = f"{platform.id}: driver {driver.version}, CUDA {cuda.version}"
            try:
                packages = closure(universe, driver, cuda)
            except ProvisionError as error:
                wrong.append(f"{subject}: {error.message} (there is {error.got})")
                continue
            names |= set(packages)
            suite = packages[driver.userspace[0]].origin.partition("/")[0]
            if suite != driver.suite:
                wrong.append(f"{subject}: the driver lies in {suite}, the row says {driver.suite}")
            size = sum(package.size for package in packages.values()) // 1_000_000
            print(f"{subject}: {len(packages)} packages, {size} MB, driver of {suite}")
    owners = contents(platform, cache)
    for cuda in cudas:
        for path, package in promises(cuda):
            if package not in owners.get(path, set()):
                actual = ", ".join(sorted(owners.get(path, set()))) or "no package"
                wrong.append(f"{platform.id}: /{path} is of {actual}, not of {package}")
        print(f"{platform.id}: CUDA {cuda.version}: {len(list(promises(cuda)))} files looked for")
    if where is not None:
        record(platform, names, cache, where)
    return wrong


def main() -> int:
    """The exit code: 0 where all rows are right."""
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
