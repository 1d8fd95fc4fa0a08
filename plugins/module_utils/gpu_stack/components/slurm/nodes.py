"""What slurmctld says of a node, and what that means."""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from . import hardware, paths

if TYPE_CHECKING:
    from typing import Any, Callable

    from ...host.context import Result

    Run = Callable[[list[str]], Result]

PATIENCE = "8"
READY = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING")
# States, and marks behind a +, in which a node gets no job.
AWAY = ("DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "MAINT", "POWER", "UNKNOWN")

# What a reason of slurmctld's begins with, or an error has in it: in our words, and what to do.
# What slurmctld itself has drained stays drained (validate_node_specs of its node_mgr.c).
RESUME = "then scontrol update nodename=NAME state=resume, for Slurm leaves it drained"
CURES = (
    ("Low RealMemory", "the host has less memory than slurm.conf says",
     "run again, which reads its memory anew; a broken module of memory shows in `dmidecode`; "
     + RESUME),
    ("Low socket", "the host has fewer processors than slurm.conf says", "run again; " + RESUME),
    ("Low CPUs", "the host has fewer processors than slurm.conf says", "run again; " + RESUME),
    ("gres/gpu", "the host has fewer GPUs than slurm.conf says",
     "`nvidia-smi -L` says which answer; cure the missing one, or run again without it; " + RESUME),
    ("Not responding", "slurmctld does not reach its slurmd",
     f"`systemctl status slurmd` there; a firewall must let TCP {paths.NODE_PORT} in"),
    ("Kill task failed", "a process of a job could not be ended",
     "`scontrol show job` and `ps` there say which; a hung driver needs a reboot"),
    ("Prolog error", "its prolog failed", "the log of slurmd there says why"),
    ("Epilog error", "its epilog failed", "the log of slurmd there says why"),
    ("Expired credential", "the clocks are apart by more than munge allows, 300 s",
     "set them by one source: timedatectl, chrony"),
    ("Rewound credential", "the clocks are apart by more than munge allows",
     "set them by one source: timedatectl, chrony"),
    ("Invalid credential", "its munge key is not the cluster's", "run again, which brings the key"),
    ("Zero Bytes were transmitted", "the controller does not take this host's munge key",
     "run again, which brings the key; `munge -n | unmunge` tries it"),
    ("authentication", "the controller does not take this host's munge key",
     "run again, which brings the key; `munge -n | unmunge` tries it"),
    ("Incompatible versions", "its Slurm is of a release that its controller does not serve",
     "bring the controller to a newer release of its distribution first; docs/slurm.md says which"),
    ("Unable to contact slurm controller", "slurmctld does not answer",
     f"`systemctl status slurmctld` there; a firewall must let TCP {paths.CONTROLLER_PORT} in"),
)  # fmt: skip


def ask(run: Run, name: str) -> dict[str, Any]:
    """{state, marks, silent, gres, cpus, memory, reason, by, partitions, version}, or {error}."""
    answer = run(["timeout", PATIENCE, "scontrol", "-o", "show", "node", name])
    if answer.rc:
        message = (answer.err or answer.out).strip()
        return {"error": message[-300:] or "slurmctld does not answer"}
    return parse(answer.out)


def parse(text: str) -> dict[str, Any]:
    """The same of one line of `scontrol -o show node`."""
    # What follows is anybody's words: a reason of ours quotes the command of a user's process.
    words = dict(re.findall(r"(\w+)=(\S*)", text.partition(" Reason=")[0]))
    if "NodeName" not in words:
        return {"error": text.strip()[-300:] or "slurmctld does not know it"}
    reason = re.search(r"\bReason=(.*?)(?: \[([^\]@]*)@[^\]]*\])?(?: Comment=.*)?\s*$", text)
    state, _plus, marks = words.get("State", "").rstrip("*").partition("+")
    gres = re.sub(r"\(S:[^)]*\)", "", words.get("Gres", ""))
    return {
        "state": state,
        "marks": [mark for mark in marks.split("+") if mark],
        "silent": words.get("State", "").endswith("*"),
        "gres": "" if gres == "(null)" else gres,
        "cpus": int(words.get("CPUTot") or 0),
        "memory": int(words.get("RealMemory") or 0),
        "reason": reason.group(1).strip() if reason else "",
        "by": (reason.group(2) or "") if reason else "",
        "partitions": words.get("Partitions", "").split(","),
        "version": words.get("Version", ""),
    }


def unlike(node_record: dict[str, Any], part: dict[str, Any]) -> str:
    """How the controller's configuration of a node differs from its part; "" where it does not."""
    cpus = part["sockets"] * part["cores"] * part["threads"]
    wished = (cpus, part["memory"], hardware.gres(part["gpus"]))
    configured = (node_record["cpus"], node_record["memory"], node_record["gres"])
    return "" if wished == configured else "{0} CPUs, {1} MiB, {2}".format(*configured)


def is_ready(node_record: dict[str, Any]) -> bool:
    """Whether the node takes jobs, or has some."""
    if "error" in node_record or node_record["silent"] or node_record["state"] not in READY:
        return False
    return not any(mark.startswith(AWAY) for mark in node_record["marks"])


def is_drained(node_record: dict[str, Any]) -> bool:
    """Whether the node is well, and gets no job because somebody or a check has drained it."""
    if "error" in node_record or node_record["silent"] or node_record["state"] not in READY:
        return False
    away = {mark for mark in node_record["marks"] if mark.startswith(AWAY)}
    return away == {"DRAIN"}


def why(node_record: dict[str, Any]) -> tuple[str, str]:
    """(what is wrong with a node that takes no jobs, what to do)."""
    message = node_record.get("error") or node_record.get("reason") or ""
    for mark, words, cure in CURES:
        if mark in message:
            return f"{words} ({message})", cure
    if "error" in node_record:
        return message, "`systemctl status slurmctld` on the controller, munge on both"
    state = "+".join(
        [node_record["state"].lower(), *(mark.lower() for mark in node_record["marks"])]
    )
    if node_record["silent"]:
        return f"it is {state} and does not answer", CURES[4][2]
    resume = "scontrol update nodename=NAME state=resume, when that is cured"
    return f"it is {state}: {message or 'nobody said why'}", resume
