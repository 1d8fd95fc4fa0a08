"""What goes wrong with Slurm on a host of a cluster.

How the node is, the look has seen already; here are the journal's words of why, and what it means.
"""

from __future__ import annotations

import re

from ...doctor.case import Case, clue, heard
from ...type_checking import TYPE_CHECKING
from . import drain, hardware, nodes, paths
from .program import words

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Clues, Facts

PATIENCE = "15"
RUN = "a run of the component where the host is to be in a cluster"
UPDATE = "sudo scontrol update nodename={node} state=resume"
MEMORY = "Low RealMemory"
# What the journal says of a slurmd that does not start.
WHY_STOPPED = ("slurm-gpus", "slurm-releases", "clocks-apart", "munge-key")
# What to do about a drain of ours, by who drained.
NEXT = {
    words.ACCEPTANCE: "`provision accept` says which GPU is sick and what to do; once it is well, "
    "the same command takes the node back",
    words.HEALTH: "cure the GPU that is named; the node takes itself back at its next health check",
    words.PROLOG: "the process that is named uses the GPU outside of all jobs: its owner is to end "
    "it; the next health check takes the node back",
    words.EPILOG: "the process that is named has outlived its job: its owner is to end it; the "
    "next health check takes the node back",
    words.RUN: "a run that needed the node for itself was cut off: the next one proves it and "
    "takes it back (`provision apply`)",
}

CASES = (
    Case(
        "munge-silent",
        "munge does not run, so the cluster rejects this host's messages",
        ("dun/munge#118", "dun/munge#125"),
        "start it: its journal says what it does not like, most often the owner or the mode of "
        "/etc/munge, its key, or /var/log/munge",
        ("sudo systemctl restart munge", "journalctl -u munge -n 20"),
        (
            r"munge\.socket\.2\"?: No such file or directory",
            r"If munged is up, restart with --num-threads",
        ),
        RUN,
    ),
    Case(
        "munge-key",
        "munge's key is another than the cluster's, or others can read it",
        ("dun/munge#62", "dun/munge#116", "clustervision/trinity#759"),
        "a run brings the cluster's key and restarts munge, which reads it when it starts and "
        "never again",
        ("provision apply --limit {host} --tags slurm",),
        (
            r"Munge decode failed: Invalid credential",
            r"unmunge: [Ee]rror: [Ii]nvalid credential",
        ),
        RUN,
    ),
    Case(
        "clocks-apart",
        "the clocks of the cluster are further apart than munge allows, which is five minutes",
        ("stackhpc/ansible-slurm-appliance#114", "clustervision/trinity#424"),
        "set the clocks of all its hosts by one source",
        ("timedatectl", "date --utc"),
        (r"(?:Munge decode failed|authentication): (?:Expired|Rewound) credential",),
        "",
    ),
    Case(
        "slurm-releases",
        "this host's Slurm is of a release that its controller does not serve",
        (),
        "bring the controller to a newer release of its distribution first: slurmctld serves older "
        "ones for two or three releases, and never newer ones",
        ("slurmd -V",),
        (r"Incompatible versions of client and server code",),
        "",
    ),
    Case(
        "slurmctld-silent",
        "slurmctld does not answer: no job begins in the cluster, and those that run go on",
        ("ArjunaCluster/ArjunaUsers#111", "ai4d-iasc/trixie#93"),
        "start it on its controller, where its journal and /var/log/slurm/slurmctld.log say why it "
        "ended; else a firewall keeps this host from its port 6817",
        ("sudo systemctl status slurmctld   # on the controller", "scontrol ping"),
        (r"Unable to contact slurm controller \(connect failure\)",),
        RUN,
    ),
    Case(
        "slurm-gpus",
        "Slurm allocates GPUs that this host does not have",
        (
            *("BiBiServ/bibigrid#705", "fgci-org/ansible-role-cuda#3"),
            "awslabs/awsome-distributed-ai#195",
        ),
        "cure the GPU or the driver; to give out the others meanwhile, a run takes it out of "
        "gres.conf once no job runs here. What Slurm itself has drained stays so until it is "
        "resumed",
        ("nvidia-smi -L", "provision accept --limit {host}", UPDATE),
        (
            r"can't stat gres\.conf file (?P<file>/dev/+nvidia\d+)",
            r"gres/gpu count reported lower than configured",
        ),
        "",
    ),
    Case(
        "slurm-memory",
        "this host has less memory than slurm.conf says, and Slurm has drained it",
        (
            *("aws/aws-parallelcluster#1517", "stackhpc/ansible-role-openhpc#92"),
            *("clusterinthecloud/terraform#11", "lyulyul/shine-cluster#82"),
        ),
        "a run reads the memory anew (a module of memory may be broken); Slurm leaves the node "
        "drained until it is resumed",
        ("free -m", "provision apply --limit {host} --tags slurm", UPDATE),
        (r"Low RealMemory", r"has low real_memory size"),
        RUN,
    ),
    Case(
        "slurmd-stopped",
        "slurmd does not run: this host gets no job, and after five minutes those here are lost",
        (),
        "start it; what it says before it ends is the reason",
        ("sudo systemctl restart slurmd", "journalctl -u slurmd -n 20"),
        (),
        RUN,
    ),
    Case(
        "slurm-drained",
        "this node gets no new job: it was drained because something on it is not well",
        (),
        "{next}",
        ("sinfo -R",),
        (),
        "",
    ),
    Case(
        "slurm-away",
        "this node takes no jobs, and none of the checks here is the reason",
        ("lyulyul/shine-cluster#7", "radiasoft/sirepo#2136", "ArjunaCluster/ArjunaUsers#164"),
        "{next}",
        ("scontrol show node {node}", UPDATE),
        (),
        "",
    ),
)
_CASES = {case.id: case for case in CASES}


def ask(context: Context) -> dict[str, Any]:
    """What the cases ask for beside the look: what slurmd and munge said last.

    Nothing is asked on a host that no run has brought into a cluster.
    """
    if not context.isdir(paths.PLACE):
        return {"slurm": {"journal": "", "drained": False}}
    argv = ["timeout", PATIENCE, "journalctl", "-b", "-u", "slurmd", "-u", "munge", "-n", "40"]
    journal = context.run([*argv, "-o", "cat", "--no-pager"]).out
    return {"slurm": {"journal": journal, "drained": drain.noted(context) is not None}}


def _state(facts: Facts) -> dict[str, Any]:
    """What the look has seen of Slurm where all of it is there; {} elsewhere."""
    state: dict[str, Any] = facts["found"]["state"].get("slurm") or {}
    noted = state.get("noted") or {}
    here = noted.get("part") or noted.get("settings")
    return state if here and not state.get("missing", True) else {}


def _said(facts: Facts) -> dict[str, Any]:
    """What slurmctld says of this node; {} where it was not asked."""
    node_record: dict[str, Any] = _state(facts).get("said") or {}
    return node_record


def _node(facts: Facts) -> str:
    name: str = (_state(facts)["noted"].get("part") or {}).get("name", "")
    return name


def _unwell(facts: Facts) -> bool:
    """Whether the journal's messages count: those of a node that is ready now are of the past."""
    node_record, stopped = _said(facts), _state(facts).get("stopped") or []
    return bool(stopped) or (bool(node_record) and not nodes.is_ready(node_record))


def _journal(facts: Facts, case: str) -> Clues:
    if not _unwell(facts):
        return []
    return heard(_CASES[case], facts["slurm"]["journal"], "the journal of slurmd and munge")


def munge_silent(facts: Facts) -> Clues:
    stopped = _state(facts).get("stopped") or []
    return [clue("munge.service does not run")] if "munge" in stopped else []


def munge_key(facts: Facts) -> Clues:
    if not _state(facts) or _state(facts)["key"]:
        return []
    evidence = "{0} is not the cluster's, or not munge's alone (0400)".format(paths.MUNGE_KEY)
    return [clue(evidence), *_journal(facts, "munge-key")]


def clocks_apart(facts: Facts) -> Clues:
    return _journal(facts, "clocks-apart")


def slurm_releases(facts: Facts) -> Clues:
    return _journal(facts, "slurm-releases")


def slurmctld_silent(facts: Facts) -> Clues:
    error = _said(facts).get("error", "")
    clues = [clue("slurmctld.service does not run here")] if _stopped(facts, "slurmctld") else []
    if "Unable to contact" in error or error.startswith("slurmctld does not answer"):
        clues.append(clue("scontrol show node: " + error))
    return clues


def _stopped(facts: Facts, unit: str) -> bool:
    return unit in (_state(facts).get("stopped") or [])


def slurm_gpus(facts: Facts) -> Clues:
    """Clues of device files that Slurm gives out and that are not there."""
    state = _state(facts)
    if not state or state.get("part") is None:
        return []
    node = {"node": _node(facts)}
    there = [gpu["file"] for gpu in state["part"]["gpus"]]
    files = [gpu["file"] for gpu in (state["noted"].get("part") or {}).get("gpus") or []]
    clues = [clue(f"gres.conf gives out {file}, which no program can open here", **node)
             for file in files if file not in there]  # fmt: skip
    reason = _said(facts).get("reason", "")
    if "gres/gpu" in reason and words.kind_of(reason) is None:
        clues.append(clue("slurmctld: " + reason, **node))
    return clues + [
        dict(entry, words={**entry["words"], **node}) for entry in _journal(facts, "slurm-gpus")
    ]


def slurm_memory(facts: Facts) -> Clues:
    state, reason = _state(facts), _said(facts).get("reason", "")
    if reason.startswith(MEMORY) or ", " + MEMORY in reason:
        return [clue("slurmctld: " + reason, node=_node(facts))]
    noted, now = state.get("noted", {}).get("part"), state.get("part")
    if not noted or not now or noted["memory"] - now["memory"] <= 2 * hardware.STEP:
        return []
    evidence = "slurm.conf says {0} MiB, and this host has {1} for jobs"
    return [clue(evidence.format(noted["memory"], now["memory"]), node=_node(facts))]


def slurmd_stopped(facts: Facts) -> Clues:
    """Clues of a slurmd that is down for a reason which no other case names."""
    if not _stopped(facts, "slurmd") or any(_journal(facts, case) for case in WHY_STOPPED):
        return []
    fatal = re.findall(r"fatal: *(.*)", facts["slurm"]["journal"])
    return [clue("slurmd.service does not run" + (": " + fatal[-1] if fatal else ""))]


def slurm_drained(facts: Facts) -> Clues:
    """Clues of a drain by one of this program's checks; a run at work is no trouble."""
    node_record = _said(facts)
    kind = words.kind_of(node_record.get("reason"))
    if kind is None or "DRAIN" not in node_record["marks"]:
        return []
    if kind == words.RUN and facts["found"]["preflight"].get("running") is not None:
        return []
    clues = [clue(node_record["reason"], next=NEXT[kind])]
    if facts["slurm"]["drained"] and kind != words.RUN:
        clues.append(clue(f"{drain.NOTE}: a run that was cut off had the node for itself; no "
                          "health check takes it back before the next run"))  # fmt: skip
    return clues


def slurm_away(facts: Facts) -> Clues:
    """Clues of a node that takes no jobs for what no other case tells: somebody's own drain."""
    node_record = _said(facts)
    others = (CHECKS[case](facts) for case in CHECKS if case != "slurm-away")
    if not node_record or nodes.is_ready(node_record) or any(others):
        return []
    wrong, cure = nodes.why(node_record)
    by = ", by " + node_record["by"] if node_record.get("by") else ""
    return [clue(f"slurmctld: {wrong}{by}", next=cure, node=_node(facts))]


CHECKS = {
    "munge-silent": munge_silent,
    "munge-key": munge_key,
    "clocks-apart": clocks_apart,
    "slurm-releases": slurm_releases,
    "slurmctld-silent": slurmctld_silent,
    "slurm-gpus": slurm_gpus,
    "slurm-memory": slurm_memory,
    "slurmd-stopped": slurmd_stopped,
    "slurm-drained": slurm_drained,
    "slurm-away": slurm_away,
}


def _run(facts: Facts, _clues: Clues) -> dict[str, Any]:
    wished = facts["options"].get("slurm_state") == "present"
    return {"components": ["slurm"]} if wished and _state(facts) else {}


def _run_of_the_controller(facts: Facts, clues: Clues) -> dict[str, Any]:
    return _run(facts, clues) if _stopped(facts, "slurmctld") else {}


FIXES = {
    "munge-silent": _run,
    "munge-key": _run,
    "slurmctld-silent": _run_of_the_controller,
    "slurm-memory": _run,
    "slurmd-stopped": _run,
}
