"""The files of an environment's wheels, compared with what pip has recorded of them."""

from __future__ import annotations

import base64
import csv
import re
import stat

from ...change import change
from ...host import package_files
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Row

# More flaws than this in one wheel are one item, and so are more flawed wheels: a person reads it.
MANY = 5


def normalise(name: str) -> str:
    """A project's name in the spelling of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheels(names: Iterable[str]) -> dict[str, list[str]]:
    """{normalised name: [versions]} from the names of dist-info directories."""
    versions: dict[str, list[str]] = {}
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        project, dash, version = name[: -len(".dist-info")].rpartition("-")
        if dash:
            versions.setdefault(normalise(project), []).append(version)
    return versions


def record_lines(text: str, part: str = "") -> Iterator[tuple[str, str | None, int | None]]:
    """Yields (path, sha256 or None, size or None) of a RECORD's lines that contain `part`.

    With a part only those lines are parsed: a venv's RECORDs have 17,000.
    """
    if part:
        lines, at = [], text.find(part)
        while at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = len(text) if end < 0 else end
            lines.append(text[start:end])
            at = text.find(part, end)
    else:
        lines = text.splitlines()
    for line in csv.reader(lines):
        if len(line) < 3:
            continue
        hashed = line[1][len("sha256=") :] if line[1].startswith("sha256=") else None
        yield line[0], hashed, int(line[2]) if line[2].isdigit() else None


def _sha256(context: Context, path: str) -> str | None:
    """The file's hash as RECORD writes it; None when it can't be read."""
    digest = package_files.digest(context, path, "sha256")
    if digest is None:
        return None
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def _kind_fault(info: os.stat_result | None) -> str | None:
    """What is wrong with a wheel's file that is none; None where it is one."""
    if info is None:
        return "missing"
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "a link"
    return None


def _size_fault(actual: int, size: int | None) -> str | None:
    if size is None or actual == size:
        return None
    return f"{actual} bytes instead of {size}" if actual else "empty"


def _file_fault(
    context: Context, path: str, hashed: str | None, size: int | None, since: float
) -> str | None:
    """What is wrong with one file of a wheel; it is read when it is newer than the marker."""
    info = context.lstat(path)
    fault = _kind_fault(info)
    if fault is not None or info is None:
        return fault
    fault = _size_fault(info.st_size, size)
    if fault is not None:
        return fault
    if hashed is None:
        return "altered" if info.st_mtime > since else None
    if (context.deep or info.st_mtime > since) and _sha256(context, path) != hashed:
        return "altered"
    return None


def _loss(context: Context, site: str, path: str, size: int | None, since: float) -> str | None:
    """What a power cut has left of one file of a wheel; None of one that is whole, or edited.

    A file that somebody has edited is newer than the marker. The programs in `bin` have another
    first line than the wheel's, which not every pip records (pypa/pip#10744).
    """
    info = context.lstat(f"{site}/{path}")
    fault = _kind_fault(info)
    if fault is not None or info is None:
        return fault
    fault = _size_fault(info.st_size, size)
    if fault == "empty" or not (info.st_mtime > since or path.startswith("../")):
        return fault
    return None


def _record_fault(info: os.stat_result | None, text: str | None, since: float) -> str | None:
    if info is None or not text:
        return "missing"
    if info.st_mtime > since:
        return "changed"
    # Its own size is nowhere: pip ends it with a line's end.
    return None if text.endswith("\n") else "cut short"


def _faults(
    context: Context, site: str, text: str, since: float, sizes: bool
) -> Iterator[tuple[str, str]]:
    """Yields (path, fault) of one RECORD's files."""
    for path, hashed, size in record_lines(text, "" if context.deep or sizes else ".so"):
        compiled = path.endswith(".pyc")
        if hashed is None and not compiled:
            continue  # the RECORD itself, above all
        if not context.deep and ".so" not in path:
            fault = None if compiled else _loss(context, site, path, size, since)
        elif compiled:
            fault = _file_fault(context, f"{site}/{path}", None, None, since)
            if fault == "missing":
                continue  # Python works without it, and writes it where it may
        else:
            fault = _file_fault(context, f"{site}/{path}", hashed, size, since)
        if fault is not None:
            yield path, fault


def _claims(context: Context, site: str, names: list[str]) -> dict[str, set[int | None]]:
    """{path: sizes} by the RECORDs of all wheels in it: two wheels may bring one file."""
    sizes: dict[str, set[int | None]] = {}
    for name in names:
        text = context.read(f"{site}/{name}/RECORD") if name.endswith(".dist-info") else None
        for path, _hashed, size in record_lines(text or ""):
            sizes.setdefault(path, set()).add(size)
    return sizes


def _without_claimed(
    context: Context, site: str, names: list[str], flawed_files: list[dict[str, str]]
) -> list[dict[str, str]]:
    """Those flaws that are not just another wheel's file of the same path."""
    claims = _claims(context, site, names) if flawed_files else {}
    left = []
    for flaw in flawed_files:
        info = context.lstat(f"{site}/{flaw['path']}")
        if info is None or info.st_size not in claims.get(flaw["path"], ()):
            left.append(flaw)
    return left


def flaws(
    context: Context, site: str, names: list[str], row: Row, since: float, sizes: bool = False
) -> list[dict[str, str]]:
    """[{wheel, path, fault}] of the locked wheels, each compared with its RECORD.

    The ordinary look compares the shared libraries, which are most of the bytes and fail with the
    least explanation; with `sizes` it compares the size of every other file too, and a deep look
    compares every file. pip compiles Python files again, so a compiled file's hash in RECORD is
    not the installed file's.
    """
    installed = wheels(names)
    directories = {
        normalise(name[: -len(".dist-info")]): name for name in names if name.endswith(".dist-info")
    }
    sizes = sizes and not context.deep
    flawed_files: list[dict[str, str]] = []
    lost: list[dict[str, str]] = []
    for wheel in sorted(row.get("wheels") or {}):
        version = row["wheels"][wheel]
        if installed.get(normalise(wheel)) != [version]:
            continue  # another version, two, or none: that is a change already
        record = directories[normalise(f"{wheel}-{version}")] + "/RECORD"
        text = context.read(f"{site}/{record}")
        fault = _record_fault(context.lstat(f"{site}/{record}"), text, since)
        if fault is not None:
            flawed_files.append({"wheel": wheel, "path": record, "fault": fault})
            continue
        for path, fault in _faults(context, site, text or "", since, sizes):
            flaw = {"wheel": wheel, "path": path, "fault": fault}
            (lost if sizes and ".so" not in path else flawed_files).append(flaw)
    return flawed_files + _without_claimed(context, site, names, lost)


def _many(flawed_files: list[dict[str, str]]) -> tuple[str, str]:
    """("3 files: empty, missing", the reason with the first of them)."""
    faults = {
        "of another size" if " instead" in flaw["fault"] else flaw["fault"] for flaw in flawed_files
    }
    examples = ", ".join(flaw["path"] for flaw in flawed_files[:3])
    return f"{len(flawed_files)} files: {', '.join(sorted(faults)[:3])}", f"for example {examples}"


def flaw_changes(
    component: str, row: Row, flawed_files: list[dict[str, str]], repair: dict[str, Any]
) -> Changes:
    """One change per file, per wheel where many of its files are wrong, or for many wheels."""
    flawed = sorted({flaw["wheel"] for flaw in flawed_files})
    if len(flawed) > MANY:
        old, reason = _many(flawed_files)
        item, to = f"files of {len(flawed)} wheels", "as their RECORDs say"
        return [change(component, item, old, to, reason, repair=repair)]
    changes = []
    for wheel in flawed:
        its_flaws = [flaw for flaw in flawed_files if flaw["wheel"] == wheel]
        to = f"{wheel} {row['wheels'][wheel]}"
        if len(its_flaws) > MANY:
            old, reason = _many(its_flaws)
            changes.append(change(component, wheel + " files", old, to, reason, repair=repair))
            continue
        for flaw in its_flaws:
            reason = "it is not what the wheel's RECORD says"
            if flaw["path"].endswith("/RECORD"):
                reason = "the wheel's files are checked against it"
            changes.append(
                change(component, flaw["path"], flaw["fault"], to, reason, repair=repair)
            )
    return changes
