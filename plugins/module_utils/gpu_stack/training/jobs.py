"""A job's part on this host: its folder, its unit, and what it says.

The unit is of the system's manager and not of the user's: that one ends with the last login unless
the person lingers, and has no say over memory that is short. It runs with the rights of the person
alone, and systemd starts the supervisor anew where somebody kills it.
"""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import re
import shutil
import stat
import time

from ..host.refusal import RefusalError
from ..type_checking import TYPE_CHECKING
from . import account, ports, worker_status

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context

# Of a job: a part of a unit's name and of a path.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
UNIT = "provision-train-{0}-{1}.service"
VARIABLES = "/etc/provision/gpu.env"
# Bytes of a log in one answer.
PIECE = 256 * 1024
# Bytes at the end of its output of which the last line is returned.
LAST = 500
# Seconds until a unit that was asked to stop has to be gone by itself.
STOPS = 45.0
TURN = 0.25
# Systemd's states of a unit of which nothing is at work, nor will be by itself.
GONE = ("inactive", "failed")
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


def owner(context: Context, unit: str) -> str | None:
    """The number of the user whose supervisor the unit runs, or will start anew; None where it is
    over. Raises RefusalError where systemd does not say.

    `systemctl is-active` won't do: it calls a unit inactive in the second before it restarts.
    """
    show = ["systemctl", "show", "--property", "ActiveState", "--property", "User", unit]
    done = context.run(show)
    if done.rc != 0:
        raise RefusalError("systemctl show {0}: {1}".format(unit, done.err.strip()[:300]))
    properties = dict(line.partition("=")[::2] for line in done.out.splitlines())
    return None if properties.get("ActiveState") in GONE else str(properties.get("User"))


def is_active(context: Context, unit: str, person: account.Account) -> bool:
    """Whether the unit is at work for this person; another's job may have the same name."""
    return owner(context, unit) in (str(person.uid), person.name)


def start(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """Writes the worker's folder and starts its supervisor: {work, unit}.

    params: job, worker, user, folder, python, given (job.json), files ({path below the folder:
    text}), ports, token, resume. Raises RefusalError.
    """
    person = account.of(params["user"])
    unit = UNIT.format(params["job"], params["worker"])
    if owner(context, unit) is not None:
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
    os.makedirs(work, exist_ok=True)
    _check_own(work)
    shutil.rmtree(state, ignore_errors=True)
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


def _check_own(work: str) -> None:
    """Raises OSError where another user could change what the unit is going to run.

    The folder of all jobs may be one that several people share.
    """
    job = os.path.dirname(work)
    for path in (job, work):
        info = os.lstat(path)
        is_own = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
        if not is_own or _is_open(info):
            raise PermissionError(errno.EPERM, "it is not this user's alone", path)
    above = os.stat(os.path.dirname(job))
    words = ""
    if above.st_uid not in (0, os.geteuid()):
        # A directory's owner may rename what is in it, with the sticky bit too.
        words = "it is another user's, who can replace what is there (chown root)"
    elif _is_open(above) and not above.st_mode & stat.S_ISVTX:
        words = "others can replace what is there (chmod +t)"
    if words:
        raise PermissionError(errno.EPERM, words, os.path.dirname(job))


def _is_open(info: os.stat_result) -> bool:
    """Whether others than its owner can write there. A group of the user's alone is nobody else."""
    if info.st_mode & stat.S_IWOTH or not info.st_mode & stat.S_IWGRP:
        return bool(info.st_mode & stat.S_IWOTH)
    try:
        group, name = grp.getgrgid(info.st_gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return True
    return group.gr_name != name or not set(group.gr_mem) <= {name}


def read(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """{found, active, status, log, offset} of this host's worker of the job.

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
        unit = UNIT.format(params["job"], answer["status"]["worker"])
        answer["active"] = is_active(context, unit, person)
        news = answer["log"] or answer["status"]["written"] != params["since"]
        if news or not answer["active"] or time.monotonic() >= deadline:
            return dict(answer, found=True)
        time.sleep(TURN)


def _read(folder: str, params: dict[str, Any]) -> dict[str, Any] | None:
    work = worker_status.find(folder, params["job"], params["host"])
    if work is None:
        return None
    path, offset, text = os.path.join(work, "output.log"), params["offset"], b""
    quiet, last = None, ""
    if os.path.isfile(path):
        with open(path, "rb") as stream:
            info = os.fstat(stream.fileno())
            quiet = max(0.0, time.time() - info.st_mtime)
            # From an end backwards, where only the last of a long log is wanted. One that is
            # shorter than it was has begun anew.
            offset = max(0, info.st_size + offset) if offset < 0 else offset
            offset = 0 if offset > info.st_size else offset
            stream.seek(offset)
            text = stream.read(PIECE)
            stream.seek(max(0, info.st_size - LAST))
            last = stream.read(LAST).decode("utf-8", "replace").strip().rpartition("\n")[2]
    # Whole lines alone, but where a line has no end.
    whole = text if len(text) == PIECE and b"\n" not in text else text[: text.rfind(b"\n") + 1]
    return {
        "status": dict(worker_status.of(work), quiet=quiet, last=last),
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
    unit = UNIT.format(params["job"], worker_status.number(work))
    was_active = is_active(context, unit, person)
    deadline = time.monotonic() + STOPS
    while is_active(context, unit, person) and time.monotonic() < deadline:
        time.sleep(TURN)
    if is_active(context, unit, person):
        done = context.run(["systemctl", "stop", unit])
        if done.rc != 0:
            raise RefusalError("systemctl stop {0}: {1}".format(unit, done.err.strip()[:300]))
    status = person.do(lambda: worker_status.of(work))
    return {"found": True, "stopped": was_active, "status": status}


def _ask_to_stop(folder: str, job: str, host: str) -> str | None:
    work = worker_status.find(folder, job, host)
    if work is not None:
        with open(os.path.join(work, ".job", "stop"), "w"):
            pass
    return work


def listed(context: Context, params: dict[str, Any]) -> list[dict[str, Any]]:
    """What the supervisors say of each job with a worker on this host, and if it is at work."""
    person = account.of(params["user"])
    folder = person.folder(params["folder"])
    statuses: list[dict[str, Any]] = person.do(lambda: worker_status.listed(folder, params["host"]))
    for entry in statuses:
        is_named = NAME.fullmatch(entry["job"]) is not None
        unit = UNIT.format(entry["job"], entry["worker"])
        entry["active"] = is_named and not entry["verdict"] and is_active(context, unit, person)
    return statuses
