"""Who uses TensorFlow's environments, and what people added to them, before a run changes one.

A rebuilt environment has the locked wheels alone: what somebody installed stays in the old one,
which is kept beside, and the plan says so. Nobody's process is ever ended.
"""

from __future__ import annotations

import re

from ...host import code_users
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import tensorflow
from . import wheel_files
from .venv_files import OWN, PROGRAMS, SEEDED

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, State

WORDS = {"anew": "made anew", "changed": "changed", "removed": "removed"}
# More names than this are a number: a person reads the plan.
MANY = 12


def look(context: Context, state: State) -> dict[str, dict[str, Any]]:
    """{directory: {kind, more, using, kept}} of the environments that a run would change.

    `kind`: new, anew, changed, removed; `more`: what people added; `kept`: where that would stay.
    """
    root = tensorflow.root_of(context.options)
    remains = state.get("remains")
    if remains is None:
        kinds = _kinds(context, root, state)
    else:  # TensorFlow is to be absent; removal.py looks for users of all that it removes
        names = [path[len(root) + 1 :] for path, _seen in remains if path != root + "/current"]
        kinds = dict.fromkeys(names, "removed")
    paths = {name: f"{root}/{name}" for name in kinds} if remains is None else {}
    users = code_users.using(context, code_users.resolved(context, paths))
    venvs: dict[str, dict[str, Any]] = {}
    for name, kind in kinds.items():
        venv = f"{root}/{name}"
        more = added(context, venv) if kind in ("anew", "removed") else []
        venvs[name] = {"kind": kind, "more": more, "using": users.get(name) or []}
        venvs[name]["kept"] = save_name(context, venv) if more else None
    return venvs


def _kinds(context: Context, root: str, state: State) -> dict[str, str]:
    """{directory: what a run does to it} of those that it changes."""
    kinds = dict.fromkeys(state["old"], "removed")
    locked = context.row
    assert locked is not None  # noqa: S101 without a row TensorFlow has no changes
    rows = [(locked[tensorflow.NAME], state)]
    for row in locked.get("beside") or []:
        rows.append((row, state["beside"][tensorflow.directory(row)]))
    for row, venv in rows:
        kind = _kind(row, venv, context.options)
        if kind is not None:
            name = tensorflow.directory(row)
            kinds[name] = kind if context.lstat(f"{root}/{name}") is not None else "new"
    return kinds


def _kind(row: Row, venv: dict[str, Any], options: Options) -> str | None:
    if not tensorflow.finished(row, venv):
        return "anew"
    changes = tensorflow.venv_changes(row, venv, options)
    if any(item["repair"] for item in changes):
        return "anew"
    return "changed" if any(item["item"] in row["wheels"] for item in changes) else None


def added(context: Context, venv: str) -> list[str]:
    """["pandas 2.0.3", "mine"] of what is in it beyond the locked wheels."""
    text = context.read(venv + "/requirements.txt")
    pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==", text) if text else []
    if not pins:
        return []
    locked = {wheel_files.normalise(name) for name in pins}
    site = tensorflow.site_packages(context, venv)
    names = context.listdir(site) if site else []
    additions = [
        f"{name} {' and '.join(sorted(versions))}"
        for name, versions in sorted(wheel_files.wheels(names).items())
        if name not in locked and name not in SEEDED
    ]
    claimed: set[str] = set()
    programs: set[str] = set()
    for name in names:
        if name.endswith(".dist-info"):
            text = context.read(f"{site}/{name}/RECORD") or ""
            claimed |= {line.split(",")[0].split("/")[0].strip('"') for line in text.splitlines()}
            programs |= set(re.findall(r'(?m)^"?\.\./\.\./\.\./bin/([^",/]+)', text))
    if not claimed:
        return additions
    record = (".dist-info", ".egg-info", ".egg-link")
    additions += [
        name for name in names
        if name not in claimed and not name.endswith(record) and name != "__pycache__"
        and not name.startswith("~")
    ]  # fmt: skip
    additions += [
        "bin/" + name for name in context.listdir(venv + "/bin")
        if name not in programs and not PROGRAMS.match(name) and name != "__pycache__"
    ]  # fmt: skip
    top = [name for name in context.listdir(venv) if not name.startswith("pip-")]
    return additions + [name for name in top if name not in OWN]


def save_name(context: Context, path: str) -> str:
    """PATH.save, or the first of PATH.save.1 and so on that is free."""
    number = 0
    while True:
        name = path + ".save" + (f".{number}" if number else "")
        if context.lstat(name) is None:
            return name
        number += 1


# the rules


def in_use(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> list[tuple[str, str]]:
    """Stops while a process uses an environment that the run would change."""
    venvs = facts["preflight"].get("venvs") or {}
    return [
        (
            f"pid {user['pid']} of {user['user']} uses TensorFlow's environment {name}, which "
            f"would be {WORDS[venvs[name]['kind']]}: {user['command']}",
            "run again when it has ended, or leave it out with --skip-tags tensorflow; none is "
            "ever ended for you",
        )
        for name in sorted(venvs)
        for user in venvs[name]["using"]
    ]


def kept(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> list[tuple[str, str]]:
    """Warns where people added files to an environment that is replaced or removed."""
    venvs = facts["preflight"].get("venvs") or {}
    reasons = []
    for name in sorted(venvs):
        more, place = venvs[name]["more"], venvs[name]["kept"]
        if not more:
            continue
        shown = ", ".join(more[:MANY])
        shown += f" and {len(more) - MANY} more" if len(more) > MANY else ""
        message = (
            f"TensorFlow's environment {name} is {WORDS[venvs[name]['kind']]}; what people put "
            f"into it stays in {place}: {shown}"
        )
        hint = (
            f"`{place}/bin/python -m pip freeze` lists it; install it again, or wish for it with "
            "packages in gpu_stack"
        )
        reasons.append((message, hint))
    return reasons


def parents(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> list[tuple[str, str]]:
    """Stops where others may write in a directory above all environments."""
    state = facts["state"].get(tensorflow.NAME) or {}
    fault = (state.get("root") or {}).get("parents")
    if fault is None:
        return []
    return [
        (
            f"{fault}: who may write there can put another TensorFlow in the place of ours",
            "give it to root alone (chown root, chmod go-w), or set tensorflow_root to a directory "
            "that is",
        )
    ]


RULES = rules_of(
    tensorflow.NAME,
    stops={
        "venv-parents": parents,
        "venv-in-use": in_use,
    },
    warns={
        "venv-kept": kept,
    },
)
