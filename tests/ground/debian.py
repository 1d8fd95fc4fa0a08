"""Debian's real packages, each pinned by its SHA-256 (debian.txt), kept in the user's cache.

What the labs' shared download cache has already is copied from there; nothing is used before
its checksum is right.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from provision.errors import MachineError
from provision.locallab.machine import cache_directory, locked

MIRROR = "http://deb.debian.org/debian"


@dataclass(frozen=True)
class Pinned:
    """A package of a Debian release."""

    suite: str
    name: str
    sha256: str
    place: str

    @property
    def version(self) -> str:
        """NVIDIA's own number for it: "11.1.1+~11.1.0.152~11.2.2-3" is 11.1.0.152."""
        version = self.place.rsplit("/", 1)[1].split("_")[1]
        return re.split(r"[~-]", version.rpartition("+~")[2])[0]


@lru_cache
def pinned() -> dict[tuple[str, str], Pinned]:
    """{(suite, package): row} of debian.txt."""
    text = Path(__file__).with_name("debian.txt").read_text("ascii")
    rows = [Pinned(*line.split()) for line in text.splitlines() if not line.startswith("#")]
    return {(row.suite, row.name): row for row in rows}


def directory() -> Path:
    """Where all that the proving ground keeps lies."""
    path = cache_directory() / "ground"
    path.mkdir(exist_ok=True)
    return path


def fetch(suite: str, name: str) -> Path:
    """The package's file, from the cache, the labs' download cache or Debian's mirror."""
    row = pinned()[suite, name]
    place = directory() / "debian"
    place.mkdir(exist_ok=True)
    path = place / f"{row.sha256[:16]}-{name}.deb"
    with locked(place / f"{row.sha256[:16]}.lock"):
        if path.exists():
            return path
        unfinished = path.with_suffix(".part")
        shared = cache_directory() / "apt" / "debrep" / row.place
        for source in (shared, f"{MIRROR}/{row.place}"):
            try:
                if isinstance(source, Path):
                    shutil.copyfile(source, unfinished)
                else:
                    _download(source, unfinished)
            except OSError as error:
                reason = str(error)
                continue
            if _sha256(unfinished) == row.sha256:
                unfinished.replace(path)
                return path
            reason = f"{source} is another file than the one whose SHA-256 is pinned"
    raise MachineError(f"Debian's package {name} could not be had", where=row.place, got=reason)


def _download(url: str, target: Path) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer, target.open("wb") as out:  # noqa: S310
        shutil.copyfileobj(answer, out, 1 << 20)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        digest = hashlib.sha256()
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
