"""This node in Slurm: how it is, draining it with a reason of ours, and taking it back."""

from __future__ import annotations

import json
import os
import stat

from . import programs, words

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

    Call = Callable[[list[str], float], tuple[int, str, str]]

# What the role writes here: {node, gpus, closed, fatal_xids}.
SETTINGS = "/etc/provision-slurm/node.json"
# What a run has noted while it has the node for itself; of a killed one too.
RUNS = "/var/lib/provision/slurm-drain.json"
BEFORE_THEIR_END = "RUNNING,SUSPENDED,CONFIGURING,STOPPED"
# scontrol and squeue give slurmctld up after nine seconds.
PATIENCE = 20.0


class SilentError(Exception):
    """Slurm does not answer, or has no such node; the message says it."""


def settings(path: str = SETTINGS) -> dict[str, Any] | None:
    """What the role has written; None where it is not there, or not root's alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, encoding="utf-8") as file:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
            return None
        try:
            content = json.load(file)
        except ValueError:
            return None
    return content if isinstance(content, dict) and isinstance(content.get("node"), str) else None


def look(name: str, call: Call = programs.call) -> dict[str, Any]:
    """The node as words.node has it. Raises SilentError."""
    code, out, error = call(["scontrol", "show", "node", name], PATIENCE)
    seen = words.node(out) if code == 0 else None
    if seen is None:
        raise SilentError((error or out).strip()[:300] or "scontrol says nothing of this node")
    return seen


def jobs(name: str, call: Call = programs.call) -> list[dict[str, str]]:
    """The jobs that are on the node, also those that are ending. Raises SilentError."""
    return words.jobs(_squeue(name, BEFORE_THEIR_END + ",COMPLETING", words.JOBS, call))


def at_work(name: str, call: Call = programs.call) -> set[str]:
    """The numbers of the jobs that are on the node, as cgroups have them, without those that end.

    Raises SilentError.
    """
    return set(_squeue(name, BEFORE_THEIR_END, "%A", call).split())


def _squeue(name: str, states: str, form: str, call: Call) -> str:
    """What squeue prints of the jobs on the node, in this format. Raises SilentError."""
    argv = ["squeue", "--noheader", "--nodelist", name, "--states", states, "--format", form]
    code, out, error = call(argv, PATIENCE)
    if code:
        raise SilentError(error.strip()[:300] or "squeue says nothing")
    return out


def drain(name: str, kind: str, why: str, call: Call = programs.call) -> dict[str, Any]:
    """Drains the node unless it is drained already: {done, seen}. Raises SilentError.

    A reason of somebody else's stays, and so does one of ours, but for a milder one where an
    acceptance drains.
    """
    seen = look(name, call)
    over = kind == words.ACCEPTANCE and seen["kind"] in words.MILDER
    if seen["drained"] and not over and seen["kind"] != kind:
        return {"done": False, "seen": seen}
    text = words.reason(kind, why)
    if seen["drained"] and seen["reason"] == text:
        return {"done": False, "seen": seen}
    _update(["state=drain", "reason=" + text], name, call)
    return {"done": True, "seen": seen}


def lift(
    name: str, *kinds: str, also_down: bool = False, call: Call = programs.call
) -> dict[str, Any]:
    """Takes the node back where one of these kinds has drained it: {done, seen}.

    A node that is down stays down, unless `also_down`: then it was up before we drained it.
    Raises SilentError.
    """
    seen = look(name, call)
    if seen["kind"] not in kinds:
        return {"done": False, "seen": seen}
    _update(["state=resume" if also_down and seen["down"] else "state=undrain"], name, call)
    return {"done": True, "seen": seen}


def _update(changes: list[str], name: str, call: Call) -> None:
    code, out, error = call(["scontrol", "update", "nodename=" + name, *changes], PATIENCE)
    if code:
        raise SilentError((error or out).strip()[:300] or "scontrol refuses")
