"""Writes a bundle: each file whole and verified, the manifest last, so that a cut is seen.

A build that was cut off goes on where it was: files that are there and have their hash stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from provision.bundle import manifest as manifests
from provision.bundle.manifest import File, Manifest
from provision.bundle.plan import Plan
from provision.bundle.target import found, make_safe
from provision.errors import InputError, MachineError
from provision.upstream import download
from provision.upstream.exact import Places

# Files at once: one connection seldom fills a line.
AT_ONCE = 4
_OURS = (
    *(manifests.ARCHIVES, manifests.FILES, manifests.WHEELS, manifests.SIMPLE),
    *(manifests.SOURCES, manifests.CONTROLLER),
)
# Not in a folder of the bundle's own.
_BEGUN = {
    download.begun(Path(name)).name
    for name in (*manifests.BESIDE, manifests.LOCK, manifests.README)
}

Progress = Callable[[str], None]


def write(
    folder: Path,
    plan: Plan,
    places: Places,
    *,
    since: Manifest | None = None,
    progress: Progress = lambda _: None,
) -> tuple[Manifest, set[str]]:
    """Writes the plan's files; returns the manifest, which is not written, and the files written.

    Of those that `since` has with the same hash none is written. The first file that can't be had
    ends it.
    """
    try:
        return _write(folder, plan, places, since, progress)
    except OSError as error:
        raise MachineError.of(
            error, "the bundle cannot be written", error.filename or folder
        ) from None


def _write(
    folder: Path, plan: Plan, places: Places, since: Manifest | None, progress: Progress
) -> tuple[Manifest, set[str]]:
    earlier = since.files if since is not None else {}
    for path in (*plan.made, *plan.fetched):
        if not manifests.is_inside(path):
            raise InputError(
                "a file has its place outside of the bundle",
                where="lock.yml, or an index that it names",
                got=repr(path),
                expected="a path inside, without control characters",
            )
    both = sorted(plan.made.keys() & plan.fetched.keys())
    if two := both or manifests.clash([*plan.made, *plan.fetched]):
        raise InputError(
            "two files of the bundle have names that not every disk can tell apart",
            where="lock.yml, or an index that it names",
            got=" and ".join(two),
        )
    make_safe(folder)
    wanted = {
        path: exact
        for path, exact in plan.fetched.items()
        if path not in earlier or earlier[path].sha256 != exact.digest
    }
    # Before anything is written: what is there stays a bundle.
    _check_room(folder, sum(plan.sizes.get(p, 0) for p in wanted if not (folder / p).exists()))
    put(folder / manifests.UNFINISHED, f"{plan.lock}\n".encode("ascii"))
    files = {path: earlier[path] for path in plan.fetched.keys() - wanted.keys()}
    for path, body in plan.made.items():
        files[path] = File(hashlib.sha256(body).hexdigest(), len(body))
        if earlier.get(path) != files[path]:
            put(folder / path, body)
    sizes = _each(lambda path: places.into(wanted[path], folder / path), sorted(wanted))
    for number, (path, size) in enumerate(sizes, 1):
        files[path] = File(wanted[path].digest, size)
        progress(f"{number} of {len(wanted)} files: {path.rpartition('/')[2]}")
    manifest = Manifest(
        lock=plan.lock,
        platforms=plan.platforms,
        packages=plan.packages,
        archives=plan.archives,
        environments=plan.environments,
        files={path: files[path] for path in sorted(files)},
    )
    written = {path for path in files if earlier.get(path) != files[path]}
    clean(folder, written)
    return manifest, written


def _each(size_of: Callable[[str], int], paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(path, its size), some at once, as they come. The first error ends it.

    In threads that end with the program: Ctrl-C must not wait for a slow server.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, int | BaseException]] = queue.SimpleQueue()
    ended = threading.Event()
    for path in paths:
        waiting.put(path)

    def work() -> None:
        while not ended.is_set():
            try:
                path = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((path, size_of(path)))
            except BaseException as error:
                done.put((path, error))

    try:
        for _ in range(AT_ONCE):
            threading.Thread(target=work, daemon=True).start()
        for _ in paths:
            path, size = done.get()
            if isinstance(size, BaseException):
                raise size
            yield path, size
    finally:
        ended.set()


def finish(folder: Path, data: bytes, beside: Mapping[str, bytes]) -> None:
    """Writes the manifest, and what is `beside` it by its names; then it is a bundle."""
    try:
        for name in (manifests.SIGNATURE, manifests.DELTA, manifests.DELTA_SIGNATURE):
            if name in beside:
                put(folder / name, beside[name])
            else:
                (folder / name).unlink(missing_ok=True)
        os.sync()  # a stick that is pulled out must not have a manifest of files it lacks
        put(folder / manifests.NAME, data, sync=True)
        (folder / manifests.UNFINISHED).unlink(missing_ok=True)
        os.sync()
    except OSError as error:
        raise MachineError.of(error, "the bundle cannot be written", folder) from None


def clean(folder: Path, keep: set[str]) -> None:
    """Removes what earlier builds left at the bundle's own places and is not in `keep`."""
    for path in found(folder):
        if path not in keep and (path.partition("/")[0] in _OURS or path in _BEGUN):
            (folder / path).unlink()
            parent = (folder / path).parent
            with contextlib.suppress(OSError):  # the first that is not empty ends it
                while parent != folder:
                    parent.rmdir()
                    parent = parent.parent


def put(path: Path, body: bytes, *, sync: bool = False) -> None:
    """Writes a file, whole or not at all; with `sync` also where the power fails right after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = download.begun(path)
    with part.open("wb") as file:
        file.write(body)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)


def _check_room(folder: Path, needed: int) -> None:
    """MachineError where the disk lacks the room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise MachineError(
            "the disk has no room for the bundle",
            where=str(folder),
            got=f"{free / 1e6:.0f} MB free",
            expected=f"{needed / 1e6:.0f} MB, and some for wheels and archives",
        )
