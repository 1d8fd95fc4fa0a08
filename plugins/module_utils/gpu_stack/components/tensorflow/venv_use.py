"""Who uses TensorFlow's environments, and what people put into them, before a run changes one.

An environment that is made anew has the locked wheels alone: what somebody installed into it stays
in the old one, which is kept beside, and the plan says so. Nobody's process is ever ended.
"""

import os
import re

from ...host.processes import process
from ...rules import Rule
from .. import tensorflow
from .venv_files import OWN, PROGRAMS, SEEDED

WORDS = {"anew": "made anew", "changed": "changed", "removed": "removed"}
# More names than this are a number: a person reads the plan.
MANY = 12


def look(context, state):
    """{directory: {kind, more, using, kept}} of the environments that a run would change.

    `kind`: new, anew, changed, removed; `kept`: where what people put into it would stay.
    """
    root = tensorflow.root_of(context.options)
    gone = state.get("remains")
    if gone is None:
        kinds = _kinds(context, root, state)
    else:  # wished away; who uses it is asked with all that goes
        names = [path[len(root) + 1 :] for path, _seen in gone if path != root + "/current"]
        kinds = dict.fromkeys(names, "removed")
    places = {name: context.resolve("{0}/{1}".format(root, name)) for name in kinds}
    places = {name: path for name, path in places.items() if path is not None}
    users = using(context, places if gone is None else {})
    found = {}
    for name, kind in kinds.items():
        venv = "{0}/{1}".format(root, name)
        more = added(context, venv) if kind in ("anew", "removed") else []
        found[name] = {"kind": kind, "more": more, "using": users.get(name) or []}
        found[name]["kept"] = aside(context, venv) if more else None
    return found


def _kinds(context, root, state):
    """{directory: what a run does to it} of those that it changes."""
    found = dict.fromkeys(state["old"], "removed")
    rows = [(context.row[tensorflow.NAME], state)]
    for row in context.row.get("beside") or []:
        rows.append((row, state["beside"][tensorflow.directory(row)]))
    for row, seen in rows:
        kind = _kind(row, seen, context.options)
        if kind is not None:
            name = tensorflow.directory(row)
            there = context.lstat("{0}/{1}".format(root, name)) is not None
            found[name] = kind if there else "new"
    return found


def _kind(row, seen, options):
    if not tensorflow.finished(row, seen):
        return "anew"
    changes = tensorflow.inside(row, seen, options)
    if any(one["repair"] for one in changes):
        return "anew"
    return "changed" if any(one["item"] in row["wheels"] for one in changes) else None


def using(context, places):
    """{name: [{pid, user, command}]} of processes that have files below these open as code."""
    return {
        name: [process(context, pid, comm) for pid, comm in users]
        for name, users in users_of(context, places).items()
    }


def names_of_users(context, venvs):
    """["pid 77 (python)"] of processes that use one of these environments."""
    places = {venv: context.resolve(venv) for venv in venvs}
    users = users_of(context, {venv: path for venv, path in places.items() if path is not None})
    every = {user for found in users.values() for user in found}
    return [
        "pid {0} ({1})".format(pid, comm)
        for pid, comm in sorted(every, key=lambda user: int(user[0]))
        if int(pid) != os.getpid()
    ]


def users_of(context, places):
    """{name: [(pid, name of the process)]} of processes that have files below these open as code.

    In a container root may not be allowed to ask that of others: there their command line tells.
    """
    found = {}
    for path in context.glob("/proc/[0-9]*/maps") if places else []:
        text = context.read(path)
        if text is None:
            line = context.read(path[: -len("maps")] + "cmdline")
            if line is None:
                continue
            text = started(context, line)
        for name in sorted(places):
            if places[name] + "/" in text:
                pid = path.split("/")[2]
                comm = (context.read("/proc/{0}/comm".format(pid)) or "").strip()
                found.setdefault(name, []).append((pid, comm))
    return found


def started(context, line):
    """Where the program of a command line, and the script that it runs, really lie."""
    words = [word.rpartition("/")[0] for word in line.split("\0")[:2] if word.startswith("/")]
    return "\n".join("{0}/".format(context.resolve(word or "/")) for word in words)


def added(context, venv):
    """["pandas 2.0.3", "mine"] of what is in it beyond the locked wheels."""
    text = context.read(venv + "/requirements.txt")
    pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==", text) if text else []
    if not pins:
        return []
    locked = {tensorflow.normalise(name) for name in pins}
    site = tensorflow.site_packages(context, venv)
    names = context.listdir(site) if site else []
    found = [
        "{0} {1}".format(name, " and ".join(sorted(versions)))
        for name, versions in sorted(tensorflow.wheels(names).items())
        if name not in locked and name not in SEEDED
    ]
    known, programs = set(), set()
    for name in names:
        if name.endswith(".dist-info"):
            text = context.read("{0}/{1}/RECORD".format(site, name)) or ""
            known |= {line.split(",")[0].split("/")[0].strip('"') for line in text.splitlines()}
            programs |= set(re.findall(r'(?m)^"?\.\./\.\./\.\./bin/([^",/]+)', text))
    if not known:
        return found
    record = (".dist-info", ".egg-info", ".egg-link")
    found += [
        name for name in names
        if name not in known and not name.endswith(record) and name != "__pycache__"
        and not name.startswith("~")
    ]  # fmt: skip
    found += [
        "bin/" + name for name in context.listdir(venv + "/bin")
        if name not in programs and not PROGRAMS.match(name) and name != "__pycache__"
    ]  # fmt: skip
    top = [name for name in context.listdir(venv) if not name.startswith("pip-")]
    return found + [name for name in top if name not in OWN]


def aside(context, path):
    """The first name that is free beside `path`."""
    number = 0
    while True:
        name = path + ".save" + (".{0}".format(number) if number else "")
        if context.lstat(name) is None:
            return name
        number += 1


# the rules


def in_use(found, _changes, _options, _row):
    """Who runs what is in an environment that a run would change."""
    seen = found["preflight"].get("venvs") or {}
    return [
        (
            "pid {0} of {1} uses TensorFlow's environment {2}, which would be {3}: {4}".format(
                one["pid"], one["user"], name, WORDS[seen[name]["kind"]], one["command"]
            ),
            "run again when it has ended, or leave it out with --skip-tags tensorflow; none is "
            "ever ended for you",
        )
        for name in sorted(seen)
        for one in seen[name]["using"]
    ]


def kept(found, _changes, _options, _row):
    """What people put into an environment that is made anew or removed, and where it stays."""
    seen = found["preflight"].get("venvs") or {}
    reasons = []
    for name in sorted(seen):
        more, place = seen[name]["more"], seen[name]["kept"]
        if not more:
            continue
        shown = ", ".join(more[:MANY])
        shown += " and {0} more".format(len(more) - MANY) if len(more) > MANY else ""
        message = "TensorFlow's environment {0} is {1}; what people put into it stays in {2}: {3}"
        hint = (
            "`{0}/bin/python -m pip freeze` lists it; install it again, or wish for it with "
            "packages in gpu_stack".format(place)
        )
        reasons.append((message.format(name, WORDS[seen[name]["kind"]], place, shown), hint))
    return reasons


def parents(found, _changes, _options, _row):
    """Directories above all environments that others may write; a run does not change them."""
    state = found["state"].get(tensorflow.NAME) or {}
    why = (state.get("root") or {}).get("parents")
    if why is None:
        return []
    return [
        (
            "{0}: who may write there can put another TensorFlow in the place of ours".format(why),
            "give it to root alone (chown root, chmod go-w), or set tensorflow_root to a directory "
            "that is",
        )
    ]


RULES = (
    Rule("venv-parents", tensorflow.NAME, True, parents),
    Rule("venv-in-use", tensorflow.NAME, True, in_use),
    Rule("venv-kept", tensorflow.NAME, False, kept),
)
