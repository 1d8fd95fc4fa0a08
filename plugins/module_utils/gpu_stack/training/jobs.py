"""A job's part on this host: its folder, its unit, and what it says.

The unit is of the system's manager and not of the user's: that one ends with the last login unless
the person lingers, and has no say over memory that is short. It runs with the rights of the person
alone, and systemd starts the supervisor anew where somebody kills it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time

from ..host import mapping
from ..host.refusal import RefusalError
from ..type_checking import TYPE_CHECKING
from . import account, ports

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context

# Of a job: a part of a unit's name and of a path.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
UNIT = "provision-train-{0}-{1}.service"
VARIABLES = "/etc/provision/gpu.env"
# Bytes of a log in one answer.
PIECE = 256 * 1024
# Seconds until a unit that was asked to stop has to be gone by itself.
STOPS = 45.0
TURN = 0.25
PROPERTIES = (
    # A worker that takes too much memory is killed alone; its supervisor tells the others.
    "OOMPolicy=continue",
    "Restart=on-failure",
    "RestartSec=1",
    "KillMode=mixed",
    "TimeoutStopSec=40",
    "NoNewPrivileges=yes",
    # NCCL pins memory for InfiniBand.
    "LimitMEMLOCK=infinity",
    "EnvironmentFile=-" + VARIABLES,
)


def command(unit: str, person: account.Account, job: str, python: str, work: str) -> list[str]:
    """systemd-run's for the supervisor of a worker's folder."""
    properties = [part for text in PROPERTIES for part in ("--property", text)]
    return [
        "systemd-run", "--quiet", "--collect", "--unit", unit,
        "--description", "training {0} of {1}".format(job, person.name),
        "--uid", str(person.uid), "--gid", str(person.gid),
        "--setenv", "HOME=" + person.home, "--setenv", "USER=" + person.name,
        "--setenv", "LOGNAME=" + person.name, *properties,
        python, "-I", "-B", os.path.join(work, ".job/supervisor/__main__.py"), work,
    ]  # fmt: skip


def is_active(context: Context, unit: str) -> bool:
    return bool(context.run(["systemctl", "is-active", "--quiet", unit]).rc == 0)


def start(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """Writes the worker's folder and starts its supervisor: {work, unit}.

    params: job, worker, user, folder, python, given (job.json), files ({path below the folder:
    text}), ports, token, resume. Raises RefusalError.
    """
    person = account.of(params["user"])
    unit = UNIT.format(params["job"], params["worker"])
    if is_active(context, unit):
        raise RefusalError("a job of this name is running here already: {0}".format(unit))
    work = os.path.join(
        person.folder(params["folder"]), params["job"], "worker-{0}".format(params["worker"])
    )
    given = dict(params["given"], script=os.path.join(work, params["given"]["script"]))
    person.do(lambda: write(work, given, params["files"]))
    ports.release(params["ports"], params["token"])
    done = context.run(command(unit, person, params["job"], params["python"], work))
    if done.rc != 0:
        raise RefusalError("systemd-run: {0}".format((done.err or done.out).strip()[:500]))
    return {"work": work, "unit": unit}


def write(work: str, given: dict[str, Any], files: dict[str, str]) -> None:
    """The files of a worker; what a former job of this name has backed up and printed stays."""
    state = os.path.join(work, ".job")
    shutil.rmtree(state, ignore_errors=True)
    os.makedirs(work, exist_ok=True)
    os.mkdir(state, 0o700)
    for name, text in files.items():
        path = os.path.join(work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Anew, whatever is there.
        with open(path + ".new", "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(path + ".new", path)
    path = os.path.join(state, "job.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(given, stream)


def find(folder: str, job: str, host: str) -> str | None:
    """The folder of this host's worker of a job; None without one.

    A home may be shared by all hosts, so each looks for the worker that has its name.
    """
    try:
        names = sorted(os.listdir(os.path.join(folder, job)))
    except FileNotFoundError:
        return None
    for name in names:
        work = os.path.join(folder, job, name)
        given = _json(os.path.join(work, ".job", "job.json"))
        if given and given["hosts"][given["worker"]] == host:
            return work
    return None


def listed(folder: str, host: str) -> list[dict[str, Any]]:
    """[{job, verdict, reason, script, progress}] of the jobs that have a worker on this host."""
    found = []
    for job in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        work = find(folder, job, host)
        if work is not None:
            found.append(dict(told(work), job=job))
    return found


def told(work: str) -> dict[str, Any]:
    """What the supervisor has written down of its worker and of the job."""
    given = _json(os.path.join(work, ".job", "job.json")) or {}
    state = _json(os.path.join(work, ".job", "state.json")) or {}
    answer = state.get("answer") or {}
    return {
        "worker": given.get("worker"), "hosts": given.get("hosts"), "work": work,
        "restarts_allowed": given.get("restarts"), "ports": given.get("ports"),
        "verdict": answer.get("verdict") or "", "reason": answer.get("reason") or "",
        "generation": answer.get("generation") or 0, "running": state.get("running"),
        "progress": state.get("progress"), "mark": state.get("mark"),
        "board": state.get("board"), "written": state.get("written"),
    }  # fmt: skip


def read(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """{found, active, told, log, offset} of this host's worker of the job.

    log: what it has printed from `offset` on, of which PIECE bytes at most. Where nothing is new it
    is waited for, `wait` seconds at most.
    """
    person = account.of(params["user"])
    folder = person.folder(params["folder"])
    deadline = time.monotonic() + params["wait"]
    while True:
        answer = person.do(lambda: _read(folder, params))
        if answer is None:
            return {"found": False}
        unit = UNIT.format(params["job"], answer["told"]["worker"])
        answer["active"] = is_active(context, unit)
        news = answer["log"] or answer["told"]["written"] != params["since"]
        if news or not answer["active"] or time.monotonic() >= deadline:
            return dict(answer, found=True)
        time.sleep(TURN)


def _read(folder: str, params: dict[str, Any]) -> dict[str, Any] | None:
    work = find(folder, params["job"], params["host"])
    if work is None:
        return None
    path, offset, text = os.path.join(work, "output.log"), params["offset"], b""
    if os.path.isfile(path):
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            # From an end backwards, where only the last of a long log is wanted.
            offset = max(0, size + offset) if offset < 0 else min(offset, size)
            stream.seek(offset)
            text = stream.read(PIECE)
    # Whole lines alone, but where a line has no end.
    whole = text if len(text) == PIECE and b"\n" not in text else text[: text.rfind(b"\n") + 1]
    return {
        "told": told(work),
        "log": whole.decode("utf-8", "replace"),
        "offset": offset + len(whole),
    }


def stop(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """Asks the job to end, and sees that this host's part of it has: {found, stopped}.

    The supervisors tell each other, so whoever hears it first ends all of them.
    """
    person = account.of(params["user"])
    folder = person.folder(params["folder"])
    work = person.do(lambda: _ask_to_stop(folder, params["job"], params["host"]))
    if work is None:
        return {"found": False, "stopped": False}
    unit = UNIT.format(params["job"], work.rpartition("-")[2])
    was_active = is_active(context, unit)
    deadline = time.monotonic() + STOPS
    while is_active(context, unit) and time.monotonic() < deadline:
        time.sleep(TURN)
    if is_active(context, unit):
        done = context.run(["systemctl", "stop", unit])
        if done.rc != 0:
            raise RefusalError("systemctl stop {0}: {1}".format(unit, done.err.strip()[:300]))
    return {"found": True, "stopped": was_active, "told": person.do(lambda: told(work))}


def _ask_to_stop(folder: str, job: str, host: str) -> str | None:
    work = find(folder, job, host)
    if work is not None:
        with open(os.path.join(work, ".job", "stop"), "w"):
            pass
    return work


def _json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return mapping.of(stream.read())
    except (OSError, ValueError):
        return None
