"""Lists the processes that use a GPU."""

from __future__ import annotations

import re

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .context import Context, Result

# Programs that always hold the device files, and lose nothing when the driver changes. Names as in
# /proc/<pid>/comm, which holds 15 characters.
DAEMONS = (
    "nvidia-persiste", "nv-fabricmanage", "nvidia-imex", "nv-hostengine", "dcgm-exporter",
    "nvidia-smi",
)  # fmt: skip

# It opens every GPU, and blocks if the driver hangs.
COMPUTE_APPS = ["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"]


def text_of(context: Context, path: str) -> str:
    """A file's text; "" where it can't be read, as of a process that has ended."""
    return context.read(path) or ""


def accounts(context: Context) -> list[list[str]]:
    """The seven fields of each user, passwd(5); lines of NIS and broken ones are left out."""
    lines = [line.split(":") for line in text_of(context, "/etc/passwd").splitlines()]
    return [fields for fields in lines if len(fields) == 7]


def processes(context: Context, compute_apps: Result | None = None) -> list[dict[str, Any]]:
    """Who uses a GPU: [{pid, user, command}] of holders of a device file and of CUDA programs.

    `compute_apps`: the answer of COMPUTE_APPS.
    """
    users = {str(holder["pid"]): holder for holder in holders(context)}
    # A process of another container shows here though its files can't be read from this one.
    answer = context.run(COMPUTE_APPS) if compute_apps is None else compute_apps
    if answer.rc == 0:
        for line in answer.out.splitlines():
            pid, _comma, name = line.partition(",")
            pid = pid.strip()
            if pid.isdigit() and pid not in users:
                users[pid] = process(context, pid, name.strip())
    return _by_number(users)


def holders(context: Context) -> list[dict[str, Any]]:
    """[{pid, user, command}] of processes that hold a /dev/nvidia* file, DAEMONS apart."""
    found = {}
    for directory in context.glob("/proc/[0-9]*/fd"):
        pid = directory.split("/")[2]
        comm = text_of(context, "/proc/{0}/comm".format(pid)).strip()
        if comm in DAEMONS:
            continue
        opened = [context.readlink(directory + "/" + name) for name in context.listdir(directory)]
        if any(target is not None and target.startswith("/dev/nvidia") for target in opened):
            found[pid] = process(context, pid, comm)
    return _by_number(found)


def _by_number(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [found[pid] for pid in sorted(found, key=int)]


def in_words(found: list[dict[str, Any]]) -> str:
    """Such processes on one line."""
    return "; ".join("pid {pid} of {user}: {command}".format(**process) for process in found)


def process(context: Context, pid: str, comm: str) -> dict[str, Any]:
    words = text_of(context, "/proc/{0}/cmdline".format(pid)).replace("\0", " ").strip()
    # The user chooses them, and they are printed on an administrator's terminal.
    command, comm = ("".join(c if c.isprintable() else "?" for c in text) for text in (words, comm))
    uid = re.search(r"^Uid:\s+(\d+)", text_of(context, "/proc/{0}/status".format(pid)), re.M)
    user = None
    if uid is not None:
        names = [fields[0] for fields in accounts(context) if fields[2] == uid.group(1)]
        user = names[0] if names else uid.group(1)
    return {"pid": int(pid), "user": user, "command": (command or comm)[:160]}
