"""Part 1 of an acceptance: everything that a host says of its GPUs without loading one."""

from __future__ import annotations

import os
import time

from ..host import platform
from ..type_checking import TYPE_CHECKING
from . import bounded, bus, cpus, kernel_log, nvml, words
from .checks.surroundings import SHARED_MEMORY

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..host.context import Context

# In seconds. A driver without its daemon starts every card anew, which takes 2 s each.
NVML_PATIENCE = 60.0
LOG_PATIENCE = 20
# Until NVML names a process no more that has ended.
SETTLED = 0.5
# A lab's host shares the kernel of the machine that it runs on; its simulated GPU's log is here.
SIMULATED_LOG = "/etc/gpu-simulated.log"


def look(
    context: Context, ask: Callable[[], dict[str, Any]] = nvml.read, patience: float = NVML_PATIENCE
) -> dict[str, Any]:
    """{bus, nvml, log, shared_memory, cpus, simulated, container}; reads, and changes nothing.

    `nvml` is as nvml.read returns it; where NVML hangs or crashes, its `error` says so.
    """
    try:
        answer = bounded.call(ask, patience)
    except (bounded.SilentError, bounded.EndedError) as error:
        hangs = isinstance(error, bounded.SilentError)
        nothing: dict[str, Any] = {"driver": None, "gpus": [], "topology": {}}
        answer = {"error": str(error), "hangs": hangs, **nothing}
    for gpu in answer["gpus"]:
        for process in gpu.get("processes") or []:
            process["user"] = _user(context, process["pid"])
    return {
        "bus": bus.look(context),
        "nvml": answer,
        "log": kernel(context),
        "shared_memory": _size(context, SHARED_MEMORY),
        "cpus": cpus.look(context),
        "simulated": platform.simulated_gpu(context),
        "container": platform.container(context),
    }


def taken(context: Context, uuid: str) -> str | None:
    """Who computes on a GPU now, in words; also that NVML does not say. None where nobody does."""
    try:
        pids = bounded.call(lambda: nvml.at_work(uuid), NVML_PATIENCE)
    except (bounded.SilentError, bounded.EndedError) as error:
        return "NVML does not say who uses it: {0}".format(error)
    return words.in_use([_user(context, pid) for pid in pids])


def free(uuid: str) -> int | None:
    """Bytes of a GPU's memory that nobody has now; None where NVML does not say it."""
    try:
        left: int | None = bounded.call(lambda: nvml.free(uuid), NVML_PATIENCE)
    except (bounded.SilentError, bounded.EndedError):
        return None
    return left


def strangers(context: Context, uuids: list[str]) -> dict[str, str]:
    """{UUID: who computes there, in words} of these GPUs; this process's own programs don't count.

    Where NVML does not say who it is, the words say so.
    """
    pids_of = _strangers(context, uuids)
    pids = [pid for entry in pids_of.values() for pid in entry or []]
    if any(context.stat("/proc/{0}".format(pid)) is None for pid in pids):
        # A program of ours that has just ended has no parent left by which to recognise it. A
        # process that NVML names again is one that can't be seen from here.
        time.sleep(SETTLED)
        pids_of = _strangers(context, uuids)
    at_work = {}
    for uuid, entry in pids_of.items():
        if entry is None:
            word: str | None = words.UNSAID
        else:
            word = words.in_use([_user(context, pid) for pid in entry])
        if word:
            at_work[uuid] = word
    return at_work


def _strangers(context: Context, uuids: list[str]) -> dict[str, list[int] | None]:
    """{UUID: pids that are none of ours}; None where NVML does not say it."""
    try:
        pids_of = bounded.call(lambda: nvml.at_work_on(uuids), NVML_PATIENCE)
    except (bounded.SilentError, bounded.EndedError):
        return dict.fromkeys(uuids)
    return {
        uuid: None if pids is None else [pid for pid in pids if not _ours(context, pid)]
        for uuid, pids in pids_of.items()
    }


def _ours(context: Context, pid: int) -> bool:
    """Whether this process has started it, or one of its programs has."""
    mine = os.getpid()
    while pid > 1 and pid != mine:
        # Its name, in brackets, may have any character: proc(5).
        fields = (context.read("/proc/{0}/stat".format(pid)) or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return pid == mine


def kernel(context: Context) -> dict[str, Any] | None:
    """{xids, cards} of the kernel's log of this boot; None where that can't be read.

    xids: [{time, pci, number, message, own, pid, part}]; cards: {address: {uuid, serial}} of
    those that the driver named there.
    """
    text = _log(context)
    if text is None:
        return None
    return {
        "xids": [
            {
                "time": xid.time, "pci": xid.address, "number": xid.number,
                "message": xid.message, "own": xid.own, "pid": xid.pid, "part": xid.part,
            }
            for xid in kernel_log.xids(text)
        ],
        "cards": {
            address: {"uuid": card.uuid, "serial": card.serial}
            for address, card in kernel_log.cards(text).items()
        },
    }  # fmt: skip


def _log(context: Context) -> str | None:
    if platform.simulated_gpu(context):
        return context.read(SIMULATED_LOG) or ""
    inside = platform.container(context)
    for argv in (kernel_log.JOURNAL, ("dmesg",)):
        result = context.run(["timeout", str(LOG_PATIENCE), *argv])
        output: str = result.out
        # A container may have a journal without the kernel's messages, or a made-up dmesg (gVisor).
        # The driver writes at least its version: without a word of it nothing was well.
        if result.rc == 0 and output.strip() and (kernel_log.DRIVER in output or not inside):
            return output
    return None


def _size(context: Context, path: str) -> int | None:
    """Bytes of the file system there."""
    if context.root != "/":
        return None
    try:
        info = os.statvfs(path)
    except OSError:
        return None
    return info.f_blocks * info.f_frsize


def _user(context: Context, pid: int) -> str | None:
    """The name, or else the number, of the user whose process it is."""
    import pwd

    status = context.stat("/proc/{0}".format(pid))
    if status is None:
        return None
    try:
        return pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return str(status.st_uid)
