"""Finds what users other than root may write on the import path of TensorFlow's environments.

A job imports from site-packages with its owner's rights, and a run has root execute pip there. So a
file, directory or link on the import path that somebody else may write is damage: its content can't
be trusted, and the environment is built again. The module checks the same before it executes
anything, for the role works without gpu_state too.
"""

from __future__ import annotations

import os
import stat

from ...change import change
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, State

BUILDING, READY, REMOVING = ".building-", ".ready-", ".removing-"
# Debian's policy (9.1.2) gives staff what root gives: /usr/local is writable for it.
STAFF = 50
# More flaws than this are one item: a person reads the plan.
MANY = 5


class Owner(object):
    """Root of the host, or the owner of a recorded tree."""

    def __init__(self, context: Context) -> None:
        info = context.stat("/")
        self.uid = info.st_uid if info is not None else 0
        self.groups = (info.st_gid if info is not None else 0, STAFF)

    def fault(self, info: os.stat_result) -> str | None:
        """ "owned by user 1000" and the like; None where root alone may write."""
        if info.st_uid != self.uid:
            return f"owned by user {info.st_uid}"
        if stat.S_ISLNK(info.st_mode):
            return None
        if info.st_mode & stat.S_IWOTH:
            return "writable for all"
        if info.st_mode & stat.S_IWGRP and info.st_gid not in self.groups:
            return f"writable for group {info.st_gid}"
        return None


def parents(context: Context, path: str, end: bool = False) -> str | None:
    """ "/data is owned by user 1000" of a directory or link on the way to `path`; None without.

    `path` itself counts where a link leads to it, or with `end`. A directory like /tmp does not:
    nobody but root moves root's entries there.
    """
    owner = Owner(context)
    todo, done, links = [part for part in path.split("/") if part], "", 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        place = done + "/" + part
        info = context.lstat(place)
        if info is None:
            return None  # root makes it, and what is below it
        link = stat.S_ISLNK(info.st_mode)
        last = not (todo or links or end or link)
        fault = None if last or _sticky(info, owner) else owner.fault(info)
        if fault is not None:
            return f"{place} is {fault}"
        if not link:
            done = place
            continue
        links += 1
        if links > 40:
            return f"{path} leads in a circle"
        target = context.readlink(place) or ""
        done = "" if target.startswith("/") else done
        todo = [name for name in target.split("/") if name] + todo
    return None


def _sticky(info: os.stat_result, owner: Owner) -> bool:
    """Whether this is a directory of root's with the sticky bit, as /tmp."""
    sticky = bool(info.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(info.st_mode) and sticky and info.st_uid == owner.uid


def look_root(context: Context, root: str) -> dict[str, Any]:
    """{parents, owner, link, left}: why the paths to all environments are not root's alone, and
    leftovers of killed runs.
    """
    owner = Owner(context)
    info, current = context.stat(root), context.lstat(root + "/current")
    return {
        "parents": parents(context, root),
        "owner": owner.fault(info) if info is not None else None,
        "link": owner.fault(current) if current is not None else None,
        "left": left_in(context, root),
    }


def left_in(context: Context, root: str) -> list[str]:
    """Names of what killed runs left below `root`."""
    return [name for name in context.listdir(root) if name.startswith((BUILDING, READY, REMOVING))]


def look(context: Context, venv: str, python: str | None) -> list[list[str]]:
    """[[path, fault]] of what Python reads in one environment and users other than root may write.

    The ordinary look covers what lies directly in bin and site-packages, a deep one all below lib.
    """
    owner = Owner(context)
    paths = [venv, venv + "/bin", venv + "/lib", venv + "/pyvenv.cfg"]
    paths += [f"{venv}/bin/{name}" for name in context.listdir(venv + "/bin")]
    importable = []
    for site in context.glob(venv + "/lib/*/site-packages"):
        importable += [f"{site}/{name}" for name in context.listdir(site)]
        paths += [os.path.dirname(site), site]
    paths += importable
    if context.deep:
        for path in importable:
            paths.extend(_below(context, path))
    flaws = []
    for path in paths:
        info = context.lstat(path)
        fault = owner.fault(info) if info is not None else None
        if fault is not None:
            flaws.append([path[len(venv) + 1 :] or ".", fault])
    for path in importable:
        if path.endswith(".pth"):
            fault = _pth_fault(context, venv, path)
            flaws += [[path[len(venv) + 1 :], fault]] if fault else []
    return flaws + _other_interpreters(context, venv, python)


def _below(context: Context, path: str) -> Iterator[str]:
    info = context.lstat(path)
    if info is None or not stat.S_ISDIR(info.st_mode):
        return
    for name in context.listdir(path):
        yield f"{path}/{name}"
        yield from _below(context, f"{path}/{name}")


def _pth_fault(context: Context, venv: str, path: str) -> str | None:
    """Why a directory that a .pth file adds to the import path is not root's alone.

    Directories of the environment itself are covered by `look`.
    """
    info = context.lstat(path)
    if info is None or not stat.S_ISREG(info.st_mode):
        return None
    for line in (context.read(path) or "").splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "import ", "import\t")):
            continue
        place = os.path.join(os.path.dirname(path), line)
        real = context.resolve(place)
        if real is None or real.startswith((context.resolve(venv) or venv) + "/"):
            continue
        fault = parents(context, place, end=True)
        if fault is not None:
            return "leads to others: " + fault
    return None


def _other_interpreters(context: Context, venv: str, python: str | None) -> list[list[str]]:
    """[[path, fault]] of the interpreter's names that lead to another one than the system's.

    A link that leads nowhere is a change of the interpreter.
    """
    if not python:
        return []
    system = "/usr/bin/python" + python
    interpreter = context.resolve(system) or system
    flaws = []
    for name in ("python", "python3", "python" + python):
        real = context.resolve(f"{venv}/bin/{name}")
        if real is not None and real != interpreter:
            flaws.append(["bin/" + name, "leads to " + real])
    return flaws


def root_changes(component: str, root: str, state: State) -> Changes:
    """Changes of what `look_root` returned: parts that are not root's alone, and leftovers."""
    changes = []
    if state.get("parents") is not None:
        reason = "who may write there can put another in its place; a run leaves that to a person"
        changes.append(change(component, root, state["parents"], "root's alone", reason))
    if state.get("owner") is not None:
        reason = "who may write there can put another in the place of what users run"
        changes.append(change(component, root, state["owner"], "root's alone", reason))
    if state.get("link") is not None:
        reason = "it names what users run"
        changes.append(change(component, root + "/current", state["link"], "root's alone", reason))
    for name in state.get("left") or []:
        reason = "left by a run that was cut off"
        changes.append(change(component, name, "present", "absent", reason))
    return changes


def changes(component: str, flaws: Sequence[Sequence[str]]) -> Changes:
    """One change per path that others may write, or one for many; each needs a new environment."""
    reinstall = {"tensorflow_reinstall": True}
    reason = "everybody imports or runs it; it is made anew"
    if len(flaws) > MANY:
        faults = sorted({fault for _path, fault in flaws})
        old = f"{len(flaws)} entries: {', '.join(faults[:3])}"
        reason = f"for example {flaws[0][0]}: {reason}"
        return [change(component, "import path", old, "root's alone", reason, repair=reinstall)]
    return [
        change(component, path, fault, "root's alone", reason, repair=reinstall)
        for path, fault in flaws
    ]
