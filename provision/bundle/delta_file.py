"""delta.json: with which bundle a delta goes, which one they make, and which files it has itself.

The manifest of a delta is the whole new bundle's, signature and all, and says nothing of this. So
the file has a signature of its own: else whoever has a delta in hand could name another bundle in
it, and by it bring somebody's bundle back to an older state; or strike a lost file out of it, and
what is left would be called good.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from provision import inputs
from provision.bundle import manifest as manifests
from provision.errors import DriftError, InputError

# 2: with what the delta makes, which ties it to its manifest.
FORMAT = 2


@dataclass(frozen=True)
class Delta:
    """`since` and `makes` are digests of manifests; `files` are the paths of its own files."""

    since: str
    makes: str
    files: frozenset[str]


def dump(since: bytes, makes: bytes, files: Iterable[str]) -> bytes:
    """The file's bytes, of two manifests' and the paths of what the first lacks.

    Without them a delta that lost a file on its way would look like one that never had it.
    """
    document = {
        "format": FORMAT,
        "since": manifests.digest(since),
        "makes": manifests.digest(makes),
        "files": sorted(files),
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def read(folder: Path) -> bytes | None:
    """The bytes of a delta's file; None of a whole bundle."""
    try:
        return inputs.read(folder / manifests.DELTA)
    except (FileNotFoundError, NotADirectoryError):
        return None


def parse(data: bytes, manifest: bytes, *, where: str) -> Delta:
    """The delta of these bytes and of its manifest's.

    DriftError for one that was altered or is of another manifest, InputError for another version's.
    """
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise InputError(
                "the delta has a format of another provision",
                where=where,
                got=f"format {document['format']!r}",
                expected=f"format {FORMAT}",
                hint="`provision bundle DIR --since BUNDLE` makes it anew",
            )
        since, makes = str(document["since"]), str(document["makes"])
        delta = Delta(since, makes, frozenset(map(str, document["files"])))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DriftError.of(error, "the delta's file was altered", where) from None
    if delta.makes != manifests.digest(manifest):
        raise DriftError(
            "the delta's file is of another manifest than the one beside it",
            where=where,
            got=manifests.digest(manifest),
            expected=delta.makes,
            hint="copy the delta again from where it was made",
        )
    return delta


def check_goes_with(delta: Delta | None, bundle: Path, *, where: Path) -> Delta:
    """The delta. InputError unless it is one, and was made for just this bundle."""
    if delta is None:
        raise InputError(
            "this is a whole bundle, and no delta",
            where=str(where),
            expected=f"one with {manifests.DELTA}",
            hint="`provision bundle DIR --since BUNDLE` makes one",
        )
    got = manifests.digest(manifests.read(bundle))
    if delta.since != got:
        raise InputError(
            "the delta is for another bundle",
            where=str(bundle),
            got=got,
            expected=delta.since,
            hint="`provision bundle DIR --since` with this one makes its own",
        )
    return delta
