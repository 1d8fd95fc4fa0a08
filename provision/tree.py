"""Writes a rendered tree without ever losing what a person put there.

Files of ours are known by `.provision-manifest.json` (path -> SHA-256 as written). A file that
differs from it was edited: it is kept beside the new one as `<name>.yours`, never silently
overwritten. Files of ours that are no longer rendered are removed; foreign ones are not touched.
Every write is a temporary file and a rename, so an interrupted render leaves each file old or new.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from provision import inputs
from provision.errors import InputError, MachineError

MANIFEST = ".provision-manifest.json"
FORMAT = 1
# In the first lines of a rendered site.yml and ansible.cfg.
MADE_BY = b"`provision render`"


@dataclass(frozen=True)
class Difference:
    """What writing would do, as sorted paths."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    edited: tuple[str, ...]  # changed or removed ones that a person had edited: kept as .yours

    @property
    def empty(self) -> bool:
        """Nothing to do."""
        return not (self.new or self.changed or self.removed)


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def _manifest(root: Path) -> dict[str, str]:
    """Path -> hash of what we wrote last; empty for a directory we never wrote into."""
    path = root / MANIFEST
    try:
        data = json.loads(inputs.read(path))
        files = data["files"]
        if data["format"] != FORMAT or not isinstance(files, dict):
            raise ValueError("format")
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            "the tree's own manifest cannot be read",
            where=str(path),
            got=str(error),
            hint="remove it: files that differ from the rendered ones are then kept as .yours",
        ) from None
    return {str(k): str(v) for k, v in files.items() if _inside(str(k))}


def _inside(path: str) -> bool:
    """Can it be a file of ours? Not where no file can have the name, or it leaves the tree."""
    pure = PurePosixPath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    if "\0" in path or any(len(os.fsencode(part)) > 255 for part in pure.parts):
        return False
    return not pure.is_absolute() and ".." not in pure.parts and bool(pure.parts)


def _present(path: Path) -> str | None:
    try:
        return sha256(inputs.read(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_ours(root: Path) -> bool:
    """Is there a site.yml that says it was rendered, though the manifest is lost?"""
    try:
        return MADE_BY in inputs.read(root / "site.yml")[:400]
    except (FileNotFoundError, NotADirectoryError):
        return False


def difference(root: Path, files: Mapping[str, bytes]) -> Difference:
    """Compare a directory with a rendered tree; reads only.

    InputError where another project has files under the tree's names: a Git repository with
    playbooks of its own would lose its site.yml and ansible.cfg to ours.
    """
    before = _manifest(root)
    new, changed, removed, edited = [], [], [], []
    for path, data in files.items():
        found = _present(root / path)
        if found is None:
            new.append(path)
        elif found != sha256(data):
            changed.append(path)
            if found != before.get(path):
                edited.append(path)
    if edited and not before and not _is_ours(root):
        raise InputError(
            "this folder has files of another project where the tree's are to be; nothing is "
            "written",
            where=str(root),
            got=", ".join(sorted(edited)[:5]),
            expected="a new folder, or one that `provision init` or `provision render` made",
            hint="give the inventory's lab/ and lock.yml a folder of their own, and render there",
        )
    for path in before:
        if path not in files:
            found = _present(root / path)
            if found is not None:
                removed.append(path)
                if found != before[path]:
                    edited.append(path)
    return Difference(
        tuple(sorted(new)), tuple(sorted(changed)), tuple(sorted(removed)), tuple(sorted(edited))
    )


def write(root: Path, files: Mapping[str, bytes], *, version: str) -> Difference:
    """Make the directory hold exactly these files of ours. MachineError when the disk refuses."""
    what = difference(root, files)
    try:
        for path in what.edited:
            _keep(root / path)
        for path in (*what.new, *what.changed):
            write_file(root / path, files[path])
        for path in what.removed:
            (root / path).unlink(missing_ok=True)
            _drop_bytecode(root / path)
            _prune(root, (root / path).parent)
        manifest = {
            "format": FORMAT,
            "provision": version,
            "files": {path: sha256(files[path]) for path in sorted(files)},
        }
        text = json.dumps(manifest, indent=1) + "\n"
        if _present(root / MANIFEST) != sha256(text.encode()):
            write_file(root / MANIFEST, text.encode())
    except OSError as error:
        raise MachineError(
            "the tree cannot be written", where=error.filename or str(root), got=str(error)
        ) from None
    return what


def write_file(path: Path, data: bytes) -> None:
    """Atomically: a reader sees the old file or the new one. A link stays one: its target changes.

    A file that is there keeps its permissions.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _keep(path: Path) -> None:
    """Move an edited file aside under the first free name."""
    number = 0
    while True:
        aside = path.with_name(path.name + (".yours" if not number else f".yours{number}"))
        if not aside.exists():
            aside.write_bytes(path.read_bytes())
            return
        number += 1


def _drop_bytecode(path: Path) -> None:
    """Remove what Python has compiled of a removed plugin, which would keep its folder alive."""
    cache = path.parent / "__pycache__"
    if path.suffix == ".py" and cache.is_dir():
        for compiled in cache.glob(f"{path.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other files are in it
            cache.rmdir()


def _prune(root: Path, folder: Path) -> None:
    """Remove directories that a removed file left empty."""
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
