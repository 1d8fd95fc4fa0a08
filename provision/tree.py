"""Writes a rendered tree without ever losing a person's changes.

`.provision-manifest.json` lists our files (path -> SHA-256 as written). A file that differs from it
was edited: it is kept beside the new one as `<name>.yours`, never silently overwritten. Our files
that are no longer rendered are removed; foreign files are not touched. Every write is a temporary
file and a rename, so an interrupted render leaves each file old or new.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from provision import inputs
from provision.errors import InputError, MachineError

MANIFEST = ".provision-manifest.json"
FORMAT = 1
# Every rendered project has it, and nothing else that is written here.
_PLAYBOOK = "site.yml"
# In the first lines of a rendered site.yml and ansible.cfg.
MADE_BY = b"`provision render`"


@dataclass(frozen=True)
class Difference:
    """The changes that writing makes, as sorted paths."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    edited: tuple[str, ...]  # changed or removed ones that a person had edited: kept as .yours

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write or remove."""
        return not (self.new or self.changed or self.removed)


def sha256(data: bytes) -> str:
    """The SHA-256 as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _manifest(root: Path) -> dict[str, str]:
    """Path -> hash of the files that we wrote last; {} without a manifest."""
    path = root / MANIFEST
    try:
        data = json.loads(inputs.read(path))
        files = data["files"]
        if data["format"] != FORMAT or not isinstance(files, dict):
            raise ValueError("format")
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError.of(
            error,
            "the tree's own manifest cannot be read",
            path,
            "remove it: files that differ from the rendered ones are then kept as .yours",
        ) from None
    return {str(k): str(v) for k, v in files.items() if _inside(str(k))}


def _inside(path: str) -> bool:
    """Whether it is a path in the tree that a file can have."""
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
    """Whether the site.yml was rendered by us, for a tree that has lost its manifest."""
    try:
        return MADE_BY in inputs.read(root / _PLAYBOOK)[:400]
    except (FileNotFoundError, NotADirectoryError):
        return False


def difference(root: Path, files: Mapping[str, bytes]) -> Difference:
    """The changes that `write` would make; reads only.

    InputError where another project has files of the tree's names: a Git repository with playbooks
    of its own would lose its site.yml and ansible.cfg to ours. InputError too where a project is to
    replace the files of another command, or these a project.
    """
    before = _manifest(root)
    _check_kind(root, before, files)
    new, changed, removed, edited = [], [], [], []
    for path, data in files.items():
        present = _present(root / path)
        if present is None:
            new.append(path)
        elif present != sha256(data):
            changed.append(path)
            if present != before.get(path):
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
            present = _present(root / path)
            if present is not None:
                removed.append(path)
                if present != before[path]:
                    edited.append(path)
    return Difference(
        tuple(sorted(new)), tuple(sorted(changed)), tuple(sorted(removed)), tuple(sorted(edited))
    )


def _check_kind(root: Path, before: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """InputError where only one of both is a rendered project: all of the other would go."""
    if before and (_PLAYBOOK in before) != (_PLAYBOOK in files):
        raise InputError(
            "this folder has files of another command of `provision`; nothing is written",
            where=str(root),
            got=", ".join(sorted(before)[:5]),
            expected="a new folder, or one that the same command made",
            hint=f"choose another folder, or remove {root / MANIFEST}: these files then stay",
        )


def write(root: Path, files: Mapping[str, bytes], *, version: str) -> Difference:
    """Writes the tree's files, removes our old ones, and returns the changes.

    MachineError where the disk refuses.
    """
    changes = difference(root, files)
    try:
        for path in changes.edited:
            _keep(root / path)
        _write_files(root, {path: files[path] for path in (*changes.new, *changes.changed)})
        for path in changes.removed:
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
        raise MachineError.of(
            error, "the tree cannot be written", error.filename or str(root)
        ) from None
    return changes


@contextlib.contextmanager
def writing(where: Path, hint: str = "", subject: str = "it") -> Iterator[None]:
    """Turns an OSError of the block into a MachineError: `subject` cannot be written at `where`."""
    try:
        yield
    except OSError as error:
        raise MachineError.of(error, f"{subject} cannot be written", where, hint) from None


def write_file(path: Path, data: bytes) -> None:
    """Writes atomically: a reader sees the old file or the new one.

    A link stays a link: its target is written. An existing file keeps its permissions.
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


def _write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Writes each as `write_file` does; a disk syncs several at once nearly as fast as one."""
    with ThreadPoolExecutor(8) as pool:
        written = [pool.submit(write_file, root / path, data) for path, data in files.items()]
    for file in written:
        file.result()


def _keep(path: Path) -> None:
    """Copies an edited file aside under the first free name."""
    number = 0
    while True:
        aside = path.with_name(path.name + (".yours" if not number else f".yours{number}"))
        if not aside.exists():
            aside.write_bytes(path.read_bytes())
            return
        number += 1


def _drop_bytecode(path: Path) -> None:
    """Removes a removed plugin's bytecode, which would keep its folder from being removed."""
    cache = path.parent / "__pycache__"
    if path.suffix == ".py" and cache.is_dir():
        for compiled in cache.glob(f"{path.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other files are in it
            cache.rmdir()


def _prune(root: Path, folder: Path) -> None:
    """Removes directories that a removed file left empty."""
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
