"""The manifest of a bundle: which files it has, by their hashes, and of which lock it is.

Its bytes are canonical, and it is what is signed: whoever trusts it trusts every file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from provision import collection, inputs
from provision.errors import DriftError, InputError

# Hosts read a bundle by the same names.
_LAYOUT = collection.stack_module("host.bundle_layout")

FORMAT: int = _LAYOUT.FORMAT
NAME: str = _LAYOUT.MANIFEST
LOCK = "lock.yml"
UNFINISHED: str = _LAYOUT.UNFINISHED
DELTA: str = _LAYOUT.DELTA
# Beside the manifest, and not in it.
SIGNATURE = f"{NAME}.sig"
DELTA_SIGNATURE = f"{DELTA}.sig"
BESIDE = (NAME, SIGNATURE, DELTA, DELTA_SIGNATURE, UNFINISHED)
# In bytes, of a file's name: what most disks take, less what a begun file's name has more.
_LONGEST = 255 - len("..part")
# The folders of a bundle. No file of anybody else's is expected in them.
ARCHIVES: str = _LAYOUT.ARCHIVES
FILES: str = _LAYOUT.FILES
WHEELS: str = _LAYOUT.WHEELS
SIMPLE: str = _LAYOUT.SIMPLE
SOURCES: str = _LAYOUT.SOURCES
CONTROLLER = "controller"
# At the root, of the manifest.
README = "README.txt"
NAMESPACE = "provision-bundle"

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class File:
    """A file of a bundle."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """What a bundle has.

    `archives` are the addresses of the package archives, each with its folder and its suites;
    `environments` say which wheels are of which requirements. `files` are by their paths.
    """

    lock: str
    platforms: tuple[str, ...]
    packages: tuple[str, ...]
    archives: tuple[Mapping[str, Any], ...]
    environments: Mapping[str, tuple[str, ...]]
    files: Mapping[str, File]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files.values())


def dump(manifest: Manifest) -> bytes:
    """The canonical bytes: sorted keys, a line for each file."""
    document = {
        "format": FORMAT,
        "lock": manifest.lock,
        "platforms": list(manifest.platforms),
        "packages": list(manifest.packages),
        "archives": [dict(archive) for archive in manifest.archives],
        "environments": {name: list(paths) for name, paths in manifest.environments.items()},
        "files": {
            path: {"sha256": file.sha256, "size": file.size}
            for path, file in manifest.files.items()
        },
    }
    lines = [
        f"{_json(key)}: {_lines(value) if isinstance(value, dict) else _json(value)}"
        for key, value in sorted(document.items())
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _lines(mapping: Mapping[str, Any]) -> str:
    lines = ",\n".join(f" {_json(key)}: {_json(mapping[key])}" for key in sorted(mapping))
    return "{\n" + lines + "\n}" if mapping else "{}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)


def digest(data: bytes) -> str:
    """By what a delta names the bundle that it goes with."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read(folder: Path) -> bytes:
    """The bytes of a bundle's manifest. InputError where the folder is no complete bundle."""
    if not folder.is_dir():
        raise InputError(
            "there is no such bundle",
            where=str(folder),
            got="a file" if os.path.lexists(folder) else "",
            expected="a bundle's folder",
            hint="`provision bundle DIR` makes one",
        )
    if (folder / UNFINISHED).exists():
        raise InputError(
            "the bundle is unfinished",
            where=str(folder),
            expected=f"a bundle without {UNFINISHED}",
            hint="the same `provision bundle` again resumes it",
        )
    try:
        return inputs.read(folder / NAME)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            "the folder is no bundle",
            where=str(folder),
            got=f"no {NAME}",
            hint="`provision bundle DIR` makes one",
        ) from None


def parse(data: bytes, *, where: str) -> Manifest:
    """The manifest in these bytes.

    DriftError for what was cut short or is none, InputError for another version's.
    """
    if len(data) > inputs.MAX_BYTES:
        raise DriftError(
            "the manifest was altered: it is larger than any",
            where=where,
            got=f"more than {inputs.MAX_BYTES} bytes",
        )
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DriftError.of(
            error, "the manifest was cut short or altered: it is not JSON", where
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        got = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise InputError(
            "the bundle has a format of another provision",
            where=where,
            got=f"format {got!r}",
            expected=f"format {FORMAT}",
            hint="`provision bundle` makes it anew",
        )
    try:
        manifest = Manifest(
            lock=_text(document["lock"]),
            platforms=tuple(_text(name) for name in document["platforms"]),
            packages=tuple(_text(name) for name in document["packages"]),
            archives=tuple(_archive(archive) for archive in document["archives"]),
            environments={
                name: tuple(_path(path) for path in paths)
                for name, paths in document["environments"].items()
            },
            files={
                _path(path): File(_hash(file["sha256"]), _size(file["size"]))
                for path, file in document["files"].items()
            },
        )
        if dump(manifest) != data:
            raise ValueError("a name stands there twice, or something is in another order")
        if two := clash(manifest.files):
            raise ValueError(f"no disk has both {two[0]} and {two[1]}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DriftError.of(
            error, "the manifest was altered: it is not as provision writes it", where
        ) from None
    return manifest


def _archive(archive: Any) -> Mapping[str, Any]:
    suites = {_text(name): [_text(c) for c in parts] for name, parts in archive["suites"].items()}
    return {"url": _text(archive["url"]), "path": _path(archive["path"]), "suites": suites}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _hash(value: Any) -> str:
    if not _HASH.fullmatch(_text(value)):
        raise ValueError(f"{value!r} is no SHA-256")
    return str(value)


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no size")
    return value


def _path(value: Any) -> str:
    """A path that stays inside the bundle."""
    if not is_inside(_text(value)):
        raise ValueError(f"{value!r} is no path inside a bundle")
    return str(value)


def is_inside(text: str) -> bool:
    """Whether this is a path of a bundle's file, that stays inside and any disk can have."""
    path = PurePosixPath(text)
    return (
        not path.is_absolute()
        and ".." not in path.parts
        and bool(path.parts)
        and str(path) == text
        and text.isprintable()
        and text not in BESIDE
        and all(len(part.encode()) <= _LONGEST for part in path.parts)
    )


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two paths that not every disk can have together; None without such.

    A stick's FAT knows no upper and lower case, so one would be written over the other. Nor can a
    file be the folder of another.
    """
    by_folded: dict[str, str] = {}
    for path in paths:
        earlier = by_folded.setdefault(_folded(path), path)
        if earlier != path:
            return earlier, path
    for path in by_folded.values():
        for parent in PurePosixPath(path).parents:
            file = by_folded.get(_folded(str(parent)), "")
            if file:
                return file, path
    return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
