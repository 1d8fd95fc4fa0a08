"""The node's GPUs: whether the driver answers, who holds their device files, fatal Xids.

Names of processes and their arguments are their users' own words: they are shown, never judged by.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import time

from . import programs, words

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable, Container, Iterable

    Call = Callable[[list[str], float], tuple[int, str, str]]

PROC = "/proc"
# There is no nvidia-smi: nobody can ask the driver, which is not a driver that does not answer.
UNASKED = 127
# In seconds; without its daemon the driver starts every card anew, which takes two or three each.
SMI_PATIENCE = 25.0
LOG_PATIENCE = 15.0
LIST_PATIENCE = 5.0
# Whoever lists GPUs opens all of them for a moment, and a job's last process may just be ending.
SETTLED = 5.0
# Programs of the system's that hold the device files and compute nothing, those of a login screen
# among them; of a person's one, the name says nothing.
SCREENS = ("Xorg", "gnome-shell")
DAEMONS = (
    "nvidia-persiste", "nv-fabricmanage", "nvidia-imex", "nv-hostengine", "dcgm-exporter",
    "nvidia-smi", *SCREENS,
)  # fmt: skip
FIRST_PERSON = 1000
# Where a lab simulates the GPUs, it also has the kernel's log of them.
SIMULATED, SIMULATED_LOG = "/etc/gpu-simulated", "/etc/gpu-simulated.log"
LIST = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
WORK = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"]
JOURNAL = [
    "journalctl", "-k", "-b", "--all", "-o", "short-unix", "--no-pager", "-q", "--lines=200000",
]  # fmt: skip
# A line of its own of the kernel's: what follows a line feed inside a message is indented.
_XID = re.compile(
    r"^(?:[0-9]{9,11}\.[0-9]{6} (?:\S+ )?kernel: |\[[^][\n]{3,60}\] )"
    r"NVRM: Xid \((?:PCI:)?([0-9a-f:.]{7,16})[^)\n]{0,40}\): ([0-9]{1,5})(?:,|$)",
    re.M,
)


def missing(gpus: Iterable[int], call: Call = programs.call) -> str | None:
    """Why the driver does not answer for these GPUs; None where all is well."""
    code, out, error = call(LIST, SMI_PATIENCE)
    if code == UNASKED:
        return None
    if code:
        lines = [line for line in (out + "\n" + error).splitlines() if line.strip()]
        return "the driver does not answer: " + (lines[-1] if lines else "status {0}".format(code))
    lacking = sorted(set(gpus) - set(_listed(out).values()))
    if lacking:
        return "the driver lists no GPU " + ", ".join(map(str, lacking))
    return None


def _listed(text: str) -> dict[str, int]:
    """{UUID: number} of what LIST prints."""
    return {uuid: int(number) for number, uuid in re.findall(r"^([0-9]+), (\S+)$", text, re.M)}


def unanswered(gpus: Iterable[int], call: Call = programs.call) -> str | None:
    """Why one of these GPUs does not answer; None where all do.

    One question where all is well: without its daemon the driver takes seconds for each.
    """
    gpus = list(gpus)
    code, out, error = call(LIST, SMI_PATIENCE)
    if code == UNASKED or (code == 0 and set(gpus) <= set(_listed(out).values())):
        return None
    if code == programs.SILENT:
        return "the driver does not answer: " + error
    # A sick GPU may fail the question for all; a job on the others is none of its business.
    return next((why for why in (silent(gpu, call) for gpu in gpus) if why), None)


def silent(index: int, call: Call = programs.call) -> str | None:
    """Why a GPU does not answer; None where it does."""
    argv = ["nvidia-smi", "-i", str(index), "--query-gpu=uuid", "--format=csv,noheader"]
    code, out, error = call(argv, SMI_PATIENCE)
    if code == UNASKED or (code == 0 and out.startswith(("GPU-", "MIG-"))):
        return None
    lines = [line for line in (out + "\n" + error).splitlines() if line.strip()]
    words_of = lines[-1] if lines else "status {0}".format(code)
    return "GPU {0} does not answer: {1}".format(index, words_of)


def fatal_xid(fatal: Iterable[int], call: Call = programs.call) -> str | None:
    """The last Xid of these numbers in the kernel's log of this boot; None without one.

    None as well where the log can't be read: an acceptance says so.
    """
    numbers = set(fatal)
    matches = [match for match in _XID.findall(_log(call)) if int(match[1]) in numbers]
    if not matches:
        return None
    return "GPU {0} has had Xid {1} since the host booted".format(*matches[-1])


def _log(call: Call) -> str:
    if os.path.exists(SIMULATED):
        try:
            with open(SIMULATED_LOG, "rb") as file:
                return programs.end_of(file.fileno(), programs.LIMIT)
        except OSError:
            return ""
    for argv in (JOURNAL, ["dmesg"]):
        code, out, _error = call(argv, LOG_PATIENCE)
        if code == 0 and out.strip():
            return out
    return ""


def holders(gpus: Iterable[int], call: Call = programs.call) -> list[dict[str, Any]]:
    """[{pid, start, uid, command, gpus, job}] of the processes that hold these device files.

    job: its number as text, None of a process of no job. Those of the system's daemons are left
    out.
    """
    wanted = {"/dev/nvidia{0}".format(gpu): gpu for gpu in gpus}
    held: dict[str, set[int]] = _computing(set(wanted.values()), call)
    for pid in (name for name in os.listdir(PROC) if name.isdigit()):
        opened = {wanted[target] for target in _open(pid, wanted)}
        if opened:
            held.setdefault(pid, set()).update(opened)
    processes = []
    for pid in sorted(held, key=int):
        entry = _process(pid, sorted(held[pid]))
        if entry is not None:
            processes.append(entry)
    if any(entry["job"] is None for entry in processes):
        code, out, _error = call(["scontrol", "listpids"], LIST_PATIENCE)
        job_of = words.pids(out) if code == 0 else {}
        for entry in processes:
            entry["job"] = entry["job"] or job_of.get(entry["pid"])
    return processes


def _computing(gpus: set[int], call: Call) -> dict[str, set[int]]:
    """{pid: GPUs} as the driver has it, which also knows processes whose files can't be read."""
    code, out, _error = call(WORK, SMI_PATIENCE)
    rows = re.findall(r"^(\S+), ([0-9]+)$", out, re.M) if code == 0 else []
    if not rows:
        return {}
    numbers = _listed(call(LIST, SMI_PATIENCE)[1])
    held: dict[str, set[int]] = {}
    for uuid, pid in rows:
        if numbers.get(uuid) in gpus:
            held.setdefault(pid, set()).add(numbers[uuid])
    return held


def lasting(
    gpus: Iterable[int], job: str | None, call: Call = programs.call, settled: float = SETTLED
) -> list[dict[str, Any]]:
    """Those of `holders` that are not of this job, and still there after some seconds."""
    gpus = list(gpus)
    deadline = time.monotonic() + settled
    first = None
    while True:
        now = {(entry["pid"], entry["start"]): entry for entry in holders(gpus, call)}
        others = {key: now[key] for key in now if job is None or now[key]["job"] != job}
        first = others if first is None else {key: others[key] for key in others if key in first}
        if not first or time.monotonic() >= deadline:
            return [first[key] for key in sorted(first)]
        time.sleep(min(0.5, max(0.05, settled / 5)))


def said(entry: dict[str, Any]) -> str:
    """ "pid 5 of ada (python train.py) on GPU 0"."""
    try:
        who = pwd.getpwuid(entry["uid"]).pw_name
    except KeyError:
        who = str(entry["uid"])
    where = ", ".join(str(gpu) for gpu in entry["gpus"])
    return "pid {0} of {1} ({2}) on GPU {3}".format(entry["pid"], who, entry["command"], where)


def _open(pid: str, wanted: Container[str]) -> list[str]:
    """Those of the `wanted` device files that a process has open.

    In a container of their own a person can have any file of that name: it must be the device.
    """
    folder = "{0}/{1}/fd".format(PROC, pid)
    targets = []
    try:
        for name in os.listdir(folder):
            path = "{0}/{1}".format(folder, name)
            try:
                target = os.readlink(path)
                if target in wanted and _device(path) == _device(target):
                    targets.append(target)
            except OSError:  # closed meanwhile
                continue
    except OSError:  # it has ended
        return []
    return targets


def _device(path: str) -> int:
    """The number of a device file. Raises OSError where it is none."""
    seen = os.stat(path)
    if not stat.S_ISCHR(seen.st_mode):
        raise OSError("no device file")
    return seen.st_rdev


def _process(pid: str, held: list[int]) -> dict[str, Any] | None:
    """What is known of a process; None of a daemon of the system's, and of one that has ended."""
    place = "{0}/{1}/".format(PROC, pid)
    # Its real user: the folder is root's where a program has made itself not dumpable.
    owner = re.search(r"^Uid:\t([0-9]+)\t", _read(place + "status"), re.M)
    # Its name, in brackets, may have any character: proc(5).
    fields = _read(place + "stat").rpartition(")")[2].split()
    if owner is None or len(fields) < 20:
        return None
    uid, start = int(owner.group(1)), fields[19]
    comm = _read(place + "comm").strip()
    if comm in DAEMONS and uid < FIRST_PERSON:
        return None
    command = _read(place + "cmdline").replace("\0", " ").strip() or comm
    return {
        "pid": int(pid),
        "start": start,
        "uid": uid,
        "command": "".join(c if c.isprintable() else "?" for c in command)[:60],
        "gpus": held,
        "job": words.job_of(_read(place + "cgroup")),
    }


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
