"""TensorFlow: a venv at its versioned path, with exactly the wheels of the lock.

The marker is written last, so a venv without it is incomplete. Wheels are read from dist-info, the
record that pip itself keeps; importing TensorFlow takes 10 s and belongs to the proof.
"""

from __future__ import annotations

import os
import re

from ...change import change, is_touched
from ...host import boots, mapping, package_files
from ...type_checking import TYPE_CHECKING
from . import activation, venv_trust, wheel_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "tensorflow"
# The directory of CUDA's wheels that the RUNPATH of every TensorFlow since 2.14 names; that of 2.21
# lacks cusolver's (readelf, LD_DEBUG=libs, 2026-11-21). The role links all libraries into it.
LINKS = "nvidia/cuda_runtime/lib/"
MARKER = ".provision.json"


def root_of(options: Options) -> str:
    """The directory of all venvs."""
    return str(options.get("tensorflow_root") or "/opt/tensorflow").rstrip("/")


def directory(row: Row) -> str:
    """Name of a venv's directory: the version, and 8 digits of its requirements' SHA-256."""
    return f"{row['version']}-{row['requirements_sha256'][:8]}"


def site_packages(context: Context, venv: str) -> str | None:
    """A venv's site-packages; None without one."""
    paths = context.glob(venv + "/lib/python3.*/site-packages")
    return paths[0] if paths else None


def venv_python(text: str | None) -> str | None:
    """`3.9` from pyvenv.cfg; None where it names no version."""
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text or "", re.M)
    return None if match is None else match.group(1)


def marker(context: Context, path: str) -> dict[str, Any] | None:
    """The content of the marker at `path`; None without one."""
    return mapping.of(context.read(path))


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
    in_use = wheel_files.wheels(context.listdir(current_site) if current_site else [])
    running = in_use.get("tensorflow")
    marked = marker(context, venv + "/" + MARKER)
    info = context.stat(venv + "/" + MARKER)
    since = info.st_mtime if marked is not None and info is not None else 0
    flaws = []
    if site and marked is not None:
        sizes = boots.due(context, venv)
        flaws = wheel_files.flaws(context, site, names, row, since, sizes)
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
        "wheels": wheel_files.wheels(names),
        "requirements": package_files.digest(context, venv + "/requirements.txt", "sha256"),
        "activation": activation.fault(context, venv, cuda) if row else None,
        "closed": closed(context, directories),
        "links": _missing_links(context, site, row) if site else [],
        "flaws": flaws,
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
        versions = state["wheels"].get(wheel_files.normalise(name)) or []
        if versions != [row["wheels"][name]]:
            installed = " and ".join(sorted(versions)) or None
            to, reason = row["wheels"][name], "the lock's requirements say so"
            repair = reinstall if len(versions) > 1 else None
            changes.append(change(NAME, name, installed, to, reason, repair=repair))
    for soname in state.get("links") or []:
        reason = "TensorFlow opens it by name, and does not look in its own wheel"
        to = f"link to {row['sonames'][soname]}'s"
        changes.append(change(NAME, LINKS + soname, "missing", to, reason))
    changes.extend(wheel_files.flaw_changes(NAME, row, state.get("flaws") or [], reinstall))
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
