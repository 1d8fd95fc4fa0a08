"""What a supervisor has written down of its worker and of the job.

It lies in the person's folder, who can write anything there: what is of another type than ours, or
larger, is nothing, and text has no control characters.
"""

from __future__ import annotations

import os
import re
import stat

from ..host import mapping
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Bytes of a file, characters of a text, and restarts that are kept.
LARGEST, LONGEST, MOST = 1 << 20, 500, 2000
VERDICTS = ("complete", "ended", "failed", "stopped")
_WORKER = re.compile(r"worker-([0-9]{1,4})")


def find(folder: str, job: str, host: str) -> str | None:
    """The folder of this host's worker of a job; None without one.

    A home may be shared by all hosts, so each looks for the worker that has its name; the newest,
    for its number may have been another before the job went on with other hosts.
    """
    try:
        names = sorted(os.listdir(os.path.join(folder, job)))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    found = []
    for name in names:
        work = os.path.join(folder, job, name)
        # The folder of all jobs may be one that several people share.
        is_own = _WORKER.fullmatch(name) and os.lstat(work).st_uid == os.geteuid()
        if is_own and _host(work) == host:
            found.append(work)
    return max(found, key=_begun, default=None)


def number(work: str) -> int:
    """The worker whose folder, as `find` returns it, this is."""
    return int(work.rpartition("-")[2])


def _begun(work: str) -> float:
    """When a job was last started in this worker's folder."""
    try:
        return os.stat(_given(work)).st_mtime
    except OSError:
        return 0.0


def _given(work: str) -> str:
    return os.path.join(work, ".job", "job.json")


def _host(work: str) -> str | None:
    """The name of the host whose worker has this folder."""
    given = content(_given(work))
    hosts = given.get("hosts")
    if given.get("worker") != number(work) or not isinstance(hosts, list):
        return None
    return _text(hosts[number(work)]) if number(work) < len(hosts) else None


def listed(folder: str, host: str) -> list[dict[str, Any]]:
    """The status (`of`), with `job`, of each job that has a worker on this host."""
    statuses = []
    for job in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        work = find(folder, job, host)
        if work is not None:
            statuses.append(dict(of(work), job=_text(job)))
    return statuses


def of(work: str) -> dict[str, Any]:
    """What the supervisor says of the worker of this folder."""
    given = content(_given(work))
    state = content(os.path.join(work, ".job", "state.json"))
    answer, progress, mark = (_part(state, name) for name in ("answer", "progress", "mark"))
    verdict = answer.get("verdict")
    hosts = given.get("hosts")
    return {
        "worker": number(work), "work": work,
        "hosts": [_text(host) for host in hosts] if isinstance(hosts, list) else [],
        "communication": _text(given.get("communication")),
        "verdict": verdict if verdict in VERDICTS else "", "reason": _text(answer.get("reason")),
        "generation": _number(answer.get("generation")) or 0,
        "trouble": _text(state.get("trouble")),
        "progress": {name: _number(progress.get(name)) for name in ("epoch", "epochs", "at")}
        if progress else None,
        "mark": {"model": _text(mark.get("model"))} if mark else None,
        "board": _board(_part(state, "board")) if state.get("board") else None,
        "since": _number(state.get("since")), "written": _number(state.get("written")),
    }  # fmt: skip


def _board(state: dict[str, Any]) -> dict[str, Any]:
    history = state.get("history")
    causes = (
        [cause for cause in history if isinstance(cause, dict)] if isinstance(history, list) else []
    )
    return {
        "restarts": _number(state.get("restarts")) or 0,
        "history": [
            {
                "generation": _number(cause.get("generation")) or 0,
                "worker": _number(cause.get("worker")) or 0,
                "host": _text(cause.get("host")), "words": _text(cause.get("words")),
            }
            for cause in causes[:MOST]
        ],
    }  # fmt: skip


def content(path: str) -> dict[str, Any]:
    """The object of a JSON file; {} where there is none that can be read at once."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return {}
            data = stream.read(LARGEST + 1)
        return (mapping.of(data.decode()) if len(data) <= LARGEST else None) or {}
    except (OSError, ValueError, RecursionError):
        return {}


def _part(state: dict[str, Any], name: str) -> dict[str, Any]:
    value = state.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(c if c.isprintable() else "?" for c in value[:LONGEST])


def _number(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) < 1e15 else None
