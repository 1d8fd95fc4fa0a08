"""Checks a bundle: that it has every file of its manifest as it was, and no other."""

from __future__ import annotations

import concurrent.futures
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.bundle import manifest as manifests
from provision.bundle.delta_file import Delta
from provision.bundle.manifest import File, Manifest
from provision.bundle.target import found
from provision.errors import DriftError, InputError
from provision.upstream import download

# Of the faults that a message names.
_SHOWN = 5


@dataclass(frozen=True)
class Checked:
    """How many files were checked, and how many of a delta are in the bundle that it goes with."""

    files: int
    elsewhere: int


def check(
    folder: Path,
    manifest: Manifest,
    delta: Delta | None,
    *,
    since: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Checked:
    """Checks all files of a bundle. DriftError that names what is missing, altered or too much.

    Of a delta the files that it was made without are looked for in `since`, and without that not
    at all.
    """
    faults: list[str] = []
    wanted: dict[str, Path] = {}
    elsewhere = 0
    for path in manifest.files:
        if delta is None or path in delta.files or os.path.lexists(folder / path):
            wanted[path] = folder / path
        else:
            elsewhere += 1
            if since is not None:
                wanted[path] = since / path
    here = {path for path in found(folder) if path not in manifests.BESIDE}
    faults += [f"{path}: not of this bundle" for path in sorted(here - manifest.files.keys())]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {
            pool.submit(fault, place, manifest.files[path]): path for path, place in wanted.items()
        }
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            progress(f"{number} of {len(running)} files")
            if future.result():
                faults.append(f"{running[future]}: {future.result()}")
    if faults:
        raise DriftError(
            "the bundle is not as it was made",
            where=str(folder),
            got=some(faults),
            expected=f"the {len(manifest.files)} files of its manifest",
            hint="copy it again from where it was made; `provision bundle` mends one there",
        )
    return Checked(len(wanted), elsewhere)


def some(faults: Sequence[str]) -> str:
    """The first faults in a message's words, and how many more there are."""
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "; ".join(sorted(faults)[:_SHOWN]) + more


def fault(path: Path, file: File) -> str:
    """What is wrong with a file of a bundle; "" if nothing."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "not a file"
        if status.st_size < file.size:
            return f"cut short, {status.st_size} of {file.size} bytes"
        if status.st_size != file.size or download.digest(path) != file.sha256:
            return "altered"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"can't be read: {error.strerror}"
    return ""


def check_lock(manifest: Manifest, digest: str, *, where: str, lock: str) -> None:
    """InputError where the bundle is of another lock."""
    if manifest.lock != digest:
        raise InputError(
            "the bundle is of another lock",
            where=where,
            got=manifest.lock,
            expected=f"{digest} ({lock})",
            hint="`provision bundle` makes one of this lock, `--since` only what is new in it",
        )
