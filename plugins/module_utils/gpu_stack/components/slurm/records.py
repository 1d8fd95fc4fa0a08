"""This program's own records of Slurm on a host, root's alone."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile

from ...host import mapping
from ...type_checking import TYPE_CHECKING
from . import paths

if TYPE_CHECKING:
    from typing import Any, Iterator

    from ...host.context import Context


def noted(context: Context) -> dict[str, Any]:
    """What a run noted; {} where there is nothing, or it is damaged."""
    return mapping.of(context.read(paths.NOTED)) or {}


def unread(context: Context) -> set[str]:
    """The services that may not have read yet what a run has written for them."""
    return set(noted(context).get("unread") or [])


def written(context: Context) -> dict[str, str]:
    """{path: digest} of what runs have written."""
    digests: dict[str, str] = noted(context).get("written") or {}
    return digests


def parts(context: Context) -> list[dict[str, Any]]:
    """The parts of the cluster's hosts, by their names; the controller alone has them."""
    cluster_parts = []
    for name in context.listdir(paths.PARTS):
        part = mapping.of(context.read(f"{paths.PARTS}/{name}")) or {}
        if name == "{0}.json".format(part.get("name")):
            cluster_parts.append(part)
    return cluster_parts


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


# writing; on the host itself alone


def put(
    path: str, data: bytes, mode: int = 0o644, owner: tuple[int, int] = (0, 0), folder: int = 0o755
) -> None:
    """The whole file or the old one, never readable by more than it should be."""
    os.makedirs(os.path.dirname(path), mode=folder, exist_ok=True)
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def save_edit(context: Context, path: str, ours: str | None) -> None:
    """Keeps a file as NAME.save where its digest is not `ours`, that of what a run wrote."""
    data = context.read_bytes(path)
    if data is not None and digest(data) != ours:
        save(path, data)


def save(path: str, data: bytes) -> None:
    """Keeps somebody's bytes as NAME.save; what was kept before stays beside it."""
    from ...host import managed_files

    managed_files.make_room(path + managed_files.SAVED)
    put(path + managed_files.SAVED, data, 0o600)


def note_written(texts: dict[str, str]) -> None:
    """Notes {path: text} as written by a run: what is another later is somebody's."""
    from ...host.context import Context

    if texts:
        digests = {path: digest(texts[path].encode()) for path in texts}
        note(written={**written(Context()), **digests})


def make_place() -> None:
    """Makes the folder of the records; root's alone."""
    os.makedirs(paths.PARTS, mode=0o700, exist_ok=True)
    for folder in (paths.PLACE, paths.PARTS):
        os.chmod(folder, 0o700)


def note(**values: Any) -> dict[str, Any]:
    """Adds these values to those that are noted; returns all."""
    from ...host.context import Context

    make_place()
    merged = dict(noted(Context()), **values)
    put(paths.NOTED, _text(merged), 0o600)
    return merged


def begin(unit: str) -> None:
    """Notes that what a service reads is about to be another.

    A run may be killed before it has restarted the service: what is on the disk is as wished then,
    and nobody sees that it runs with what it read before.
    """
    from ...host.context import Context

    note(unread=sorted(unread(Context()) | {unit}))


def have_read(unit: str) -> None:
    """Notes that a service has read what is there."""
    from ...host.context import Context

    units = unread(Context())
    if unit in units:
        note(unread=sorted(units - {unit}))


def keep_part(part: dict[str, Any]) -> None:
    put("{0}/{1}.json".format(paths.PARTS, part["name"]), _text(part), 0o600)


def forget_part(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{paths.PARTS}/{name}.json")


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One program at a time changes the cluster: several hosts of a run ask its controller."""
    make_place()
    with open(paths.PLACE + "/lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
