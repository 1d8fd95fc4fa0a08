"""What a host says before a job starts on it; it gets a listener for some seconds, and no more.

The listeners have a step of their own: NVML may take a minute to answer on one host, and those of
the others would be gone by then.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import time

from ..acceptance import bounded, machine, nvml
from ..components import tensorflow
from ..host import platform
from ..host.refusal import RefusalError
from ..type_checking import TYPE_CHECKING
from . import account, jobs, ports

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context


def look(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """{user, tensorflow, python, gpus, simulated, folder, taken, running, free, clock, fault} of
    this host.

    params: job, worker, user, folder, tensorflow_root. fault: why there is no user
    or folder. taken: whether a job of this name is there already. running: whose is at work. free:
    bytes of the folder's disk that the user may fill. clock: seconds since 1970.
    """
    facts: dict[str, Any] = {
        "fault": None, "user": None, "folder": None, "taken": False, "running": None,
        "free": None, "clock": time.time(),
        "simulated": bool(platform.simulated_gpu(context)),
        "gpus": gpus(context), **environment(context, params["tensorflow_root"]),
    }  # fmt: skip
    try:
        person = account.of(params["user"])
        facts["user"] = person.name
        facts["folder"] = os.path.join(person.folder(params["folder"]), params["job"])
        work = os.path.join(facts["folder"], "worker-{0}".format(params["worker"]))
        facts["taken"], facts["free"] = person.do(functools.partial(_folder, work))
        running = jobs.owner(context, jobs.UNIT.format(params["job"], params["worker"]))
        if running is not None:
            facts["running"] = _name(running)
    except RefusalError as error:
        facts["fault"] = str(error)
    return facts


def listen(context: Context, params: dict[str, Any]) -> dict[str, Any]:
    """{ports: {port: who holds it}, any_port: the listener's own, None without one}.

    params: ports, token, user. Where there is no such user, nothing listens: the look says why.
    """
    held: dict[int, str] = {}
    chosen = None
    with contextlib.suppress(RefusalError):
        identity = account.of(params["user"]).identity
        held, chosen = ports.listen(context, params["ports"], params["token"], identity)
    return {"ports": held, "any_port": chosen}


def _folder(work: str) -> tuple[bool, int]:
    """Whether a job has been there, and how many bytes are free where it will be."""
    there = work
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = os.statvfs(there)
    return os.path.lexists(work + "/.job"), disk.f_bavail * disk.f_frsize


def _name(number: str) -> str:
    """The user of this number; a unit may also have been started by name."""
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (ValueError, KeyError):
        return number


def environment(context: Context, root: str) -> dict[str, str | None]:
    """{tensorflow, python}: the version of the finished venv in use, and its interpreter.

    By its own path and not by `current`, which a run may turn to another while the job runs.
    """
    venv = context.resolve(root + "/current")
    marker = tensorflow.marker(context, (venv or root) + "/" + tensorflow.MARKER)
    if venv is None or marker is None or not context.exists(venv + "/bin/python"):
        return {"tensorflow": None, "python": None}
    return {"tensorflow": str(marker.get("version")), "python": venv + "/bin/python"}


def gpus(context: Context) -> dict[str, Any]:
    """{uuids, in_use, error}: the GPUs in NVML's order; {UUID: who computes there, in words}."""
    try:
        uuids = bounded.call(nvml.uuids, machine.NVML_PATIENCE)
    except (bounded.SilentError, bounded.EndedError) as error:
        return {"uuids": [], "in_use": {}, "error": "NVML does not answer: {0}".format(error)}
    return {
        "uuids": uuids,
        "in_use": machine.strangers(context, uuids) if uuids else {},
        "error": None,
    }
