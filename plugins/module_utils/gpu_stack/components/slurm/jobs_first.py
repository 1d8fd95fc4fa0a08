"""Whether a run needs a node of Slurm's for itself, and whose jobs it waits for then."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from . import drain
from .program import node, words

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Reasons, Row

PATIENCE = 3600


def survey(context: Context, facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `slurm_drain`: {node, drain, jobs, silent, pids} of a node; {} elsewhere.

    drain: {needed, resume, reason}. jobs: in words. silent: why Slurm does not answer. pids: {pid:
    job} of the processes that use a GPU.
    """
    name = drain.node_of(context)
    if name is None:
        return {}
    # By the driver's own survey, before this one.
    why = facts["preflight"].get("disturbs") or ""
    # A run that was killed may have drained it for what this one leaves as it is, and unproven.
    left_out = any(
        entry["component"] == "nvidia_driver" and not entry["selected"] for entry in changes
    )
    resume = drain.noted(context) is not None and not left_out
    seen: dict[str, Any] = {
        "node": name,
        "drain": {"needed": bool(why), "resume": bool(why) or resume, "reason": why},
        "jobs": [],
        "silent": None,
        "pids": {},
    }
    if not why:
        return {"slurm_drain": seen}
    call = drain.asker(context.run)
    try:
        seen["jobs"] = [words.job(entry) for entry in node.jobs(name, call)]
    except node.SilentError as error:
        seen["silent"] = str(error)
        return {"slurm_drain": seen}
    pids = [entry["pid"] for entry in facts["preflight"].get("processes") or []]
    seen["pids"] = drain.of_jobs(context, pids, call)
    return {"slurm_drain": seen}


def silent(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    seen = facts["preflight"].get("slurm_drain") or {}
    if not seen.get("silent"):
        return []
    return [
        (
            "{0}, and Slurm does not say whose jobs run on this node: {1}".format(
                seen["drain"]["reason"], seen["silent"]
            ),
            "`systemctl status slurmctld` on the controller; then run again",
        )
    ]


def drained_first(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen = facts["preflight"].get("slurm_drain") or {}
    if not (seen.get("drain") or {}).get("needed") or seen.get("silent"):
        return []
    patience = options.get("slurm_drain_patience", PATIENCE)
    jobs = seen["jobs"]
    shown = "; ".join(jobs[:5]) + (" and {0} more".format(len(jobs) - 5) if len(jobs) > 5 else "")
    waits = "the run waits at most {0} s (slurm_drain_patience)".format(patience)
    return [
        (
            "{0}: Slurm's node {1} is drained first{2}".format(
                seen["drain"]["reason"], seen["node"], ", and these jobs end: " + shown
                if jobs else "; no job runs there",
            ),
            waits if jobs else "nothing to do: it is taken back after the proof",
        )
    ]  # fmt: skip
