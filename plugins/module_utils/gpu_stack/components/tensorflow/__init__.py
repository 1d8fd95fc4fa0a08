"""TensorFlow: a venv at its versioned path, with exactly the wheels of the lock.

The marker is written last, so a venv without it is incomplete. Wheels are read from dist-info, the
record that pip itself keeps; importing TensorFlow takes 10 s and belongs to the proof.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import stat

from ...change import change, is_touched
from ...host import package_files
from ...type_checking import TYPE_CHECKING
from . import activation, venv_trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "tensorflow"
# The directory of CUDA's wheels that the RUNPATH of every TensorFlow since 2.14 names; that of 2.21
# lacks cusolver's (readelf, LD_DEBUG=libs, 2026-11-21). The role links all libraries into it.
LINKS = "nvidia/cuda_runtime/lib/"
MARKER = ".provision.json"
# More flaws than this in one wheel are one item: a person reads the plan.
MANY = 5


def root_of(options: Options) -> str:
    """The directory of all venvs."""
    return str(options.get("tensorflow_root") or "/opt/tensorflow").rstrip("/")


def directory(row: Row) -> str:
    """Name of a venv's directory: the version, and 8 digits of its requirements' SHA-256."""
    return f"{row['version']}-{row['requirements_sha256'][:8]}"


def normalise(name: str) -> str:
    """A project's name in the spelling of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def site_packages(context: Context, venv: str) -> str | None:
    """A venv's site-packages; None without one."""
    paths = context.glob(venv + "/lib/python3.*/site-packages")
    return paths[0] if paths else None


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


def venv_python(text: str | None) -> str | None:
    """`3.9` from pyvenv.cfg; None where it names no version."""
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text or "", re.M)
    return None if match is None else match.group(1)


def marker(context: Context, path: str) -> dict[str, Any] | None:
    """The content of the marker at `path`; None without one."""
    try:
        content = json.loads(context.read(path) or "")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


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


def _flaws(
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
    flaws = []
    for wheel in sorted(row.get("wheels") or {}):
        version = row["wheels"][wheel]
        if installed.get(normalise(wheel)) != [version]:
            continue  # another version, two, or none: that is a change already
        record = directories[normalise(f"{wheel}-{version}")] + "/RECORD"
        info = context.lstat(f"{site}/{record}")
        text = context.read(f"{site}/{record}")
        if info is None or not text:
            flaws.append({"wheel": wheel, "path": record, "fault": "missing"})
            continue
        if info.st_mtime > since:
            flaws.append({"wheel": wheel, "path": record, "fault": "changed"})
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
                flaws.append({"wheel": wheel, "path": path, "fault": fault})
    return flaws


def _missing_links(context: Context, site: str, row: Row) -> list[str]:
    """Sonames of CUDA's wheels that are installed, but not linked where every TensorFlow looks.

    A missing library is a flaw of its wheel.
    """
    sonames = []
    for soname in sorted(row.get("sonames") or {}):
        paths = [
            path
            for path in context.glob(f"{site}/nvidia/*/lib/{soname}")
            if not path.endswith(LINKS + soname)
        ]
        link = context.resolve(f"{site}/{LINKS}{soname}")
        if paths and link not in [context.resolve(path) for path in paths]:
            sonames.append(soname)
    return sonames


def closed(context: Context, paths: Iterable[str], bits: int = 0o5) -> list[str]:
    """Directories that lack one of these bits: by default those for everybody."""
    directories = []
    for path in paths:
        info = context.stat(path)
        if info is not None and info.st_mode & bits != bits:
            directories.append(path)
    return directories


def look(context: Context) -> dict[str, Any]:
    """{version, current, marker, python, isolated, interpreter, wheels, requirements, activation,
    closed, links, flaws, untrusted, root, old} of the locked venv.

    `isolated` is False where pyvenv.cfg lets the system's packages in. `root` is about the
    directory of all venvs, `old` names those that are no longer in the lock. `beside` has the same
    of each venv that is locked beside the current one, by its directory.
    """
    state = _look(context, context.part(NAME), context.part("cuda"))
    beside = (context.row or {}).get("beside") or []
    root = root_of(context.options)
    state["root"] = venv_trust.look_root(context, root)
    state["old"] = _old(
        context, root, [directory(row) for row in [context.part(NAME), *beside] if row]
    )
    if beside:
        state["beside"] = {directory(row): _look(context, row, {}) for row in beside}
    return state


def _old(context: Context, root: str, staying: list[str]) -> list[str]:
    """Names of finished venvs that are none of these, where such are not kept."""
    if context.options.get("tensorflow_keep_old", True) or not staying:
        return []
    return [
        name
        for name in context.listdir(root)
        if name not in [*staying, "current"]
        and not name.startswith(".")
        and context.readlink(f"{root}/{name}") is None
        and context.exists(f"{root}/{name}/{MARKER}")
    ]


def _look(context: Context, row: Row, cuda: dict[str, Any]) -> dict[str, Any]:
    """State of this row's venv, or of the current one where no row fits the host."""
    root = root_of(context.options)
    current = context.readlink(root + "/current")
    venv = f"{root}/{directory(row)}" if row else root + "/current"
    site = site_packages(context, venv)
    names = context.listdir(site) if site else []
    current_site = site_packages(context, root + "/current")
    running = wheels(context.listdir(current_site)).get("tensorflow") if current_site else None
    marked = marker(context, venv + "/" + MARKER)
    info = context.stat(venv + "/" + MARKER)
    since = info.st_mtime if marked is not None and info is not None else 0
    settings = context.read(venv + "/pyvenv.cfg")
    directories = [root, venv, venv + "/bin", venv + "/lib", site or venv]
    return {
        "version": running[0] if running else None,
        "current": current,
        "marker": marked,
        "python": venv_python(settings),
        "isolated": not re.search(
            r"^include-system-site-packages\s*=\s*true", settings or "", re.M | re.I
        ),
        "interpreter": context.resolve(venv + "/bin/python"),
        "wheels": wheels(names),
        "requirements": package_files.digest(context, venv + "/requirements.txt", "sha256"),
        "activation": activation.fault(context, venv, cuda) if row else None,
        "closed": closed(context, directories),
        "links": _missing_links(context, site, row) if site else [],
        "flaws": _flaws(context, site, names, row, since) if site and marked is not None else [],
        "untrusted": venv_trust.look(context, venv, row.get("python")) if marked else [],
    }


def _content_changes(row: Row, state: State) -> Changes:
    """What is wrong inside a finished venv.

    The role installs wheels that are missing or of another version; whatever else is wrong needs
    a new venv, which `tensorflow_reinstall` asks for.
    """
    reinstall = {"tensorflow_reinstall": True}
    interpreters = _interpreter_changes(row, state, reinstall)
    changes = list(interpreters)
    if not state.get("isolated", True):
        reason = "the system's packages would be imported too"
        changes.append(change(NAME, "pyvenv.cfg", "open", "isolated", reason, repair=reinstall))
    if state.get("requirements") != row["requirements_sha256"]:
        reason = "it tells people what is in the venv"
        old = "absent" if state.get("requirements") is None else "other content"
        changes.append(change(NAME, "requirements.txt", old, "as locked", reason))
    for name in sorted(row["wheels"]):
        versions = state["wheels"].get(normalise(name)) or []
        if versions != [row["wheels"][name]]:
            installed = " and ".join(sorted(versions)) or None
            to, reason = row["wheels"][name], "the lock's requirements say so"
            repair = reinstall if len(versions) > 1 else None
            changes.append(change(NAME, name, installed, to, reason, repair=repair))
    for soname in state.get("links") or []:
        reason = "TensorFlow opens it by name, and does not look in its own wheel"
        to = f"link to {row['sonames'][soname]}'s"
        changes.append(change(NAME, LINKS + soname, "missing", to, reason))
    changes.extend(_flaw_changes(row, state.get("flaws") or [], reinstall))
    untrusted = [
        (path, fault)
        for path, fault in state.get("untrusted") or []
        # A wrong interpreter is a change already.
        if not (interpreters and path.startswith("bin/python"))
    ]
    return changes + venv_trust.changes(NAME, untrusted)


def _interpreter_changes(row: Row, state: State, reinstall: dict[str, Any]) -> Changes:
    interpreter = os.path.basename(state["interpreter"] or "")
    wish = "python" + row["python"]
    if state["python"] == row["python"] and interpreter == wish:
        return []
    old = state["python"] if interpreter == wish else state["interpreter"] or "missing"
    reason = f"the wheels are for Python {row['python']}"
    return [change(NAME, "python", old, row["python"], reason, repair=reinstall)]


def _flaw_changes(row: Row, flaws: list[dict[str, str]], reinstall: dict[str, Any]) -> Changes:
    """One change per file, or per wheel where many of its files are wrong."""
    changes = []
    for wheel in sorted({flaw["wheel"] for flaw in flaws}):
        its_flaws = [flaw for flaw in flaws if flaw["wheel"] == wheel]
        to = f"{wheel} {row['wheels'][wheel]}"
        if len(its_flaws) > MANY:
            faults = sorted({flaw["fault"].split(" instead")[0] for flaw in its_flaws})
            old = f"{len(its_flaws)} files: {', '.join(faults[:3])}"
            reason = f"for example {its_flaws[0]['path']}"
            changes.append(change(NAME, wheel + " files", old, to, reason, repair=reinstall))
            continue
        for flaw in its_flaws:
            reason = "it is not what the wheel's RECORD says"
            if flaw["path"].endswith("/RECORD"):
                reason = "the wheel's files are checked against it"
            changes.append(change(NAME, flaw["path"], flaw["fault"], to, reason, repair=reinstall))
    return changes


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """What has to change until the locked venv is complete and current."""
    row = stack[NAME]
    changes = venv_trust.root_changes(NAME, root_of(options), state.get("root") or {})
    changes += venv_changes(row, state, options, state["version"])
    for name in state.get("old") or []:
        changes.append(change(NAME, name, "present", "absent", "tensorflow_keep_old is false"))
    if finished(row, state) and state["current"] != directory(row):
        reason = f"{root_of(options)}/current is what users run"
        changes.append(change(NAME, "current", state["current"], directory(row), reason))
    for part in stack.get("beside") or []:
        changes += _beside_changes(part, state["beside"][directory(part)], options)
    return changes


def _beside_changes(row: Row, state: State, options: Options) -> Changes:
    """The changes of a venv beside the current one; items begin with its version.

    There can be several, so a repair names the venv.
    """
    changes = venv_changes(row, state, options)
    for item in changes:
        item["item"] = f"{row['version']} {item['item']}"
        if item["repair"]:
            item["repair"] = {"tensorflow_reinstall_beside": [directory(row)]}
    return changes


def mark(row: Row) -> dict[str, Any]:
    """The content of a finished venv's marker."""
    return {
        "version": row["version"],
        "requirements_sha256": row["requirements_sha256"],
        "python": row["python"],
        "format": 1,
    }


def finished(row: Row, state: State) -> bool:
    """Whether the marker is this row's: all its wheels were installed once."""
    return bool(state["marker"] == mark(row))


def venv_changes(row: Row, state: State, options: Options, old: str | None = None) -> Changes:
    """The changes of one venv; `old`: the version in use before it."""
    if not finished(row, state):
        to = f"{row['version']} on Python {row['python']}"
        reason = f"the venv {root_of(options)}/{directory(row)} is missing or unfinished"
        return [change(NAME, "tensorflow", old, to, reason)]
    changes = _content_changes(row, state)
    if state.get("activation") is not None:
        reason = "it names the environment's own tree of CUDA, or none"
        changes.append(change(NAME, "bin/activate", state["activation"], "as locked", reason))
    for path in state.get("closed") or []:
        reason = "users could not run what is in it"
        changes.append(change(NAME, path, "closed", "readable by all", reason))
    return changes


def survey(context: Context, facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `venvs`: who uses what would be replaced, where there are changes."""
    from . import venv_use  # which imports this

    touched = is_touched(changes, NAME)
    return {"venvs": venv_use.look(context, facts["state"][NAME])} if touched else {}
