"""The local installer: a package that unpacks a whole repository to /var, as NVIDIA's does.

As NVIDIA's it has no InRelease, leaves its key beside the packages, and only says how to add it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.ground import cache, cuda, deb, drivers, repository
from tests.ground.repository import Key

POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    echo
    echo "The public CUDA GPG key does not appear to be installed."
    echo "To install the key, run this command:"
    echo "sudo apt-key add /{place}/7fa2af80.pub"
    echo
fi
"""


def file_name(release: str) -> str:
    row = cuda.RELEASES[release]
    return f"{_name(row)}_{row.version}-{row.driver}-1_amd64.deb"


def _name(row: cuda.Release) -> str:
    return f"cuda-repo-ubuntu2004-{row.dashed}-local"


def directory(release: str) -> str:
    """Where the repository lies on a host once the package is installed."""
    return f"/var/{_name(cuda.RELEASES[release])}"


def build(release: str, signer: Key) -> Path:
    """The package: a GB, most of it copied."""
    row = cuda.RELEASES[release]
    packages = repository.packages_of(cuda.build(release))
    old = [path for path in repository.packages_of(drivers.build("nvidia")) if _old(path)]

    def fill(place: Path) -> None:
        write(place / file_name(release), row, [*packages, *old], signer)

    recipes = (__file__, repository.__file__, deb.__file__)
    inputs = [signer.fingerprint, *(path.parent.name for path in [*packages, *old])]
    return cache.kept(f"local-{release}", recipes, inputs, fill) / file_name(release)


def _old(path: Path) -> bool:
    """The driver of the release's own time: the oldest branch there is."""
    return drivers.BRANCHES[min(drivers.BRANCHES)].version in path.name


def write(target: Path, row: cuda.Release, packages: list[Path], signer: Key) -> Path:
    """A local installer of these packages."""
    fields = {
        "Package": _name(row),
        "Version": f"{row.version}-{row.driver}-1",
        "Architecture": "amd64",
        "Maintainer": "cudatools <cudatools@nvidia.com>",
        "Section": "multiverse/devel",
        "Priority": "optional",
        "Description": "cuda repository configuration files: contains repository configuration",
    }
    place = f"var/{_name(row)}"
    scripts = {"postinst": POSTINST.replace("{place}", place)}
    made = deb.Writer(target, fields, scripts, level=0)
    with tempfile.TemporaryDirectory() as name:
        repository.flat(Path(name), packages, signer)
        for file in ("Packages", "Packages.gz", "Release", "Release.gpg"):
            made.file(f"{place}/{file}", Path(name, file).read_bytes())
    made.file(f"{place}/7fa2af80.pub", signer.armored)
    for path in packages:
        with path.open("rb") as handle:
            made.file(f"{place}/{path.name}", handle, size=path.stat().st_size)
    made.file(
        f"etc/apt/sources.list.d/cuda-ubuntu2004-{row.dashed}-local.list",
        f"deb file:///{place} /\n",
    )
    return made.close()
