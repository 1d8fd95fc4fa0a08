"""Where a bundle's files are at hand: in earlier bundles, and in files that are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from provision.bundle import manifest as manifests
from provision.errors import InputError
from provision.upstream import download
from provision.upstream.exact import Places


def at_hand(
    sources: Sequence[Path],
    cache: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Places, dict[str, dict[str, str]]]:
    """(places for files by their hashes, the environments of bundles: {key: {wheel: hash}}).

    A source is a bundle or a file. A bundle's files are believed when they are taken: each is
    hashed then. An unfinished one has no manifest to go by.
    """
    have: dict[str, Path] = {}
    at_path: dict[str, str] = {}
    environments: dict[str, dict[str, str]] = {}
    for source in sources:
        if source.is_file():
            progress(source.name)
            have.setdefault(download.digest(source), source)
            continue
        if not source.exists():
            raise InputError(
                "there is no such file or bundle",
                where=f"--from {source}",
                expected="a bundle's folder, or a file that the lock names by its hash",
            )
        manifest = manifests.parse(manifests.read(source), where=str(source / manifests.NAME))
        for path, file in manifest.files.items():
            if (source / path).is_file():
                have.setdefault(file.sha256, source / path)
                at_path.setdefault(path, file.sha256)
        for key, paths in manifest.environments.items():
            hashes = {path: manifest.files[path].sha256 for path in paths if path in manifest.files}
            if all(sha256 in have for sha256 in hashes.values()) and len(hashes) == len(paths):
                environments.setdefault(key, hashes)
    return Places(cache, have, at_path), environments
