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
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Row

# More flaws than this in one wheel are one item: a person reads the plan.
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


def _file_fault(
    context: Context, path: str, hashed: str | None, size: int | None, since: float
) -> str | None:
    """What is wrong with one file of a wheel; it is read when it is newer than the marker."""
    info = context.lstat(path)
    if info is None:
        return "missing"
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "a link"
    if size is not None and info.st_size != size:
        return f"{info.st_size} bytes instead of {size}"
    if hashed is None:
        return "altered" if info.st_mtime > since else None
    if (context.deep or info.st_mtime > since) and _sha256(context, path) != hashed:
        return "altered"
    return None


def flaws(
    context: Context, site: str, names: list[str], row: Row, since: float
) -> list[dict[str, str]]:
    """[{wheel, path, fault}] of the locked wheels, each compared with its RECORD.

    The ordinary look compares the shared libraries, which are most of the bytes and fail with the
    least explanation; a deep look compares every file. pip compiles Python files again, so a
    compiled file's hash in RECORD is not the installed file's.
    """
    installed = wheels(names)
    directories = {
        normalise(name[: -len(".dist-info")]): name for name in names if name.endswith(".dist-info")
    }
    found = []
    for wheel in sorted(row.get("wheels") or {}):
        version = row["wheels"][wheel]
        if installed.get(normalise(wheel)) != [version]:
            continue  # another version, two, or none: that is a change already
        record = directories[normalise(f"{wheel}-{version}")] + "/RECORD"
        info = context.lstat(f"{site}/{record}")
        text = context.read(f"{site}/{record}")
        if info is None or not text:
            found.append({"wheel": wheel, "path": record, "fault": "missing"})
            continue
        if info.st_mtime > since:
            found.append({"wheel": wheel, "path": record, "fault": "changed"})
            continue
        for path, hashed, size in record_lines(text, "" if context.deep else ".so"):
            if path == record:
                continue
            if path.endswith(".pyc"):
                hashed, size = None, None
            elif hashed is None:
                continue
            fault = _file_fault(context, f"{site}/{path}", hashed, size, since)
            if fault == "missing" and path.endswith(".pyc"):
                continue  # Python works without it, and writes it where it may
            if fault is not None:
                found.append({"wheel": wheel, "path": path, "fault": fault})
    return found


def flaw_changes(
    component: str, row: Row, found: list[dict[str, str]], repair: dict[str, Any]
) -> Changes:
    """One change per file, or per wheel where many of its files are wrong."""
    changes = []
    for wheel in sorted({flaw["wheel"] for flaw in found}):
        its_flaws = [flaw for flaw in found if flaw["wheel"] == wheel]
        to = f"{wheel} {row['wheels'][wheel]}"
        if len(its_flaws) > MANY:
            faults = sorted({flaw["fault"].split(" instead")[0] for flaw in its_flaws})
            old = f"{len(its_flaws)} files: {', '.join(faults[:3])}"
            reason = f"for example {its_flaws[0]['path']}"
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
