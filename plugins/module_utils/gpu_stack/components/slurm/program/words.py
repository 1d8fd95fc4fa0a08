"""What Slurm's programs print, read; and the reasons that we give to Slurm. Pure.

A drain is ours by its reason: no user can set one (that takes an operator), and an administrator
writes words of their own. A drain that is not ours is never lifted.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# What every reason of ours begins with.
MARK = "provision: "
# Who drained, which follows the mark: each lifts its own.
ACCEPTANCE, HEALTH, PROLOG, EPILOG, RUN = "acceptance", "health", "prolog", "epilog", "run"
# What an acceptance knows better than a quick check of the node itself.
MILDER = (HEALTH, PROLOG, EPILOG)
# Characters of a reason; sinfo -R shows the first twenty.
LENGTH = 300
# One line for each job, which no name of a job can break: it comes last.
JOBS = "%i|%u|%e|%T|%j"

_FIELD = re.compile(r"^   Reason=(.*?)(?: \[(\S+)@([0-9T:-]+|Unknown)\])?$", re.M)
_STATE = re.compile(r"^   State=(\S+)", re.M)
# By cgroups of version 1 and 2.
_CGROUP = re.compile(
    r"(?:/slurm(?:_[^/]*)?/uid_[0-9]+|/system\.slice/(?:[^/]*_)?slurmstepd\.scope)"
    r"/job_([0-9]+)(?:/|$)"
)
# Below these anybody makes cgroups of any name.
_OF_OTHERS = re.compile(
    r"/(?:user\.slice|user@|machine\.slice|docker|kubepods|libpod-[^/]*\.scope)"
)


def reason(kind: str, text: str) -> str:
    """The reason of a drain of ours: one line of printable ASCII."""
    words = " ".join("".join(c if " " <= c <= "~" else "?" for c in text).split())
    return "{0}{1}: {2}".format(MARK, kind, words)[:LENGTH]


def kind_of(text: str | None) -> str | None:
    """Which of us gave this reason; None where it is somebody else's, or there is none."""
    for kind in (ACCEPTANCE, HEALTH, PROLOG, EPILOG, RUN):
        if (text or "").startswith("{0}{1}: ".format(MARK, kind)):
            return kind
    return None


def node(text: str) -> dict[str, Any] | None:
    """{base, flags, drained, down, reason, by, kind} of `scontrol show node NAME`; None without.

    kind: which of our programs has drained it; None where none has.
    """
    state = _STATE.search(text)
    if state is None:
        return None
    base, *flags = (part.rstrip("*~#!%$@^-") for part in state.group(1).split("+"))
    match = _FIELD.search(text)
    why, who = (match.group(1), match.group(2)) if match else (None, None)
    drained = "DRAIN" in flags
    return {
        "base": base,
        "flags": flags,
        "drained": drained,
        "down": base == "DOWN",
        "reason": why,
        "by": who,
        "kind": kind_of(why) if drained else None,
    }


def jobs(text: str) -> list[dict[str, str]]:
    """[{id, user, until, state, name}] of `squeue --noheader --format JOBS`."""
    rows = [line.split("|", 4) for line in text.splitlines() if line.count("|") > 3]
    names = ("id", "user", "until", "state", "name")
    return [
        {name: _printable(value) for name, value in zip(names, row)}  # noqa: B905  Python 3.7
        for row in rows
    ]


def job(entry: dict[str, str]) -> str:
    """ "job 12 of ada (train) until 2026-11-26 20:53 at most"."""
    until = entry["until"].replace("T", " ")[:16]
    end = " until {0} at most".format(until) if until[:1].isdigit() else ", which has no time limit"
    return "job {0} of {1} ({2}){3}".format(entry["id"], entry["user"], entry["name"][:40], end)


def pids(text: str) -> dict[int, str]:
    """{pid: job} of `scontrol listpids`."""
    rows = [line.split() for line in text.splitlines()]
    return {
        int(row[0]): row[1]
        for row in rows
        if len(row) > 1 and row[0].isdigit() and row[1].isdigit()
    }


def job_of(cgroup: str) -> str | None:
    """The job that a process is of, by its /proc/PID/cgroup; None where it is of none."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        match = None if _OF_OTHERS.search(path) else _CGROUP.search(path)
        if match is not None:
            return match.group(1)
    return None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
