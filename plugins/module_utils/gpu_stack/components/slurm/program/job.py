"""Prolog and epilog of a job on this node.

Neither ends a process: those of a job are Slurm's, which ends them by their cgroup, and all others
are somebody else's. What is in the way is named in the reason of a drain.
"""

from __future__ import annotations

from . import gpus, node, programs, words

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    Call = Callable[[list[str], float], tuple[int, str, str]]


def of_job(environment: Mapping[str, str], settings: dict[str, Any]) -> tuple[str, list[int]]:
    """(number of the job, its GPUs by the numbers of their device files), as slurmd says it.

    SLURM_JOB_GPUS has places in gres.conf: its first GPU is 0, whatever its file. Before 21.08 it
    is not set here, and CUDA_VISIBLE_DEVICES has the numbers of the files (gres_gpu.c,
    epilog_set_env); a job's own variables don't get here.
    """
    job = environment.get("SLURM_JOB_ID", "")
    device_numbers = settings.get("gpus") or []
    if "SLURM_JOB_GPUS" in environment:
        places = _numbers(environment["SLURM_JOB_GPUS"])
        return job, [device_numbers[place] for place in places if place < len(device_numbers)]
    files = _numbers(environment.get("CUDA_VISIBLE_DEVICES", ""))
    return job, [number for number in files if number in device_numbers]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word.isdigit()]


def prolog(
    environment: Mapping[str, str],
    settings: dict[str, Any],
    call: Call = programs.call,
    settled: float = gpus.SETTLED,
) -> str | None:
    """Why the job may not begin here, which drains the node; None where it may."""
    job, mine = of_job(environment, settings)
    if not mine:
        return None
    wrong = gpus.unanswered(mine, call)
    if wrong is None:
        others = gpus.lasting(mine, job, call, settled)
        if not others:
            return None
        wrong = "in use outside of job {0}: {1}".format(job, _some(others))
    _drain(settings, words.PROLOG, wrong, call)
    return wrong


def epilog(
    environment: Mapping[str, str],
    settings: dict[str, Any],
    call: Call = programs.call,
    settled: float = gpus.SETTLED,
) -> str | None:
    """What is left on the job's GPUs, for which the node is drained; None where nothing is.

    By now Slurm has ended all of the job. What is still there it could not end, or it is nobody's.
    """
    job, mine = of_job(environment, settings)
    left = gpus.lasting(mine, None, call, settled) if mine else []
    # Where jobs share a GPU the others' stay.
    left = [entry for entry in left if entry["job"] in (None, job)]
    if not left:
        return None
    user = environment.get("SLURM_JOB_UID", "")
    own = [entry for entry in left if entry["job"] == job or str(entry["uid"]) == user]
    whose = "left by job {0}" if len(own) == len(left) else "in use after job {0}"
    wrong = "{0}: {1}".format(whose.format(job), _some(left))
    _drain(settings, words.EPILOG, wrong, call)
    return wrong


def _some(entries: list[dict[str, Any]]) -> str:
    more = " and {0} more".format(len(entries) - 2) if len(entries) > 2 else ""
    return "; ".join(gpus.said(entry) for entry in entries[:2]) + more


def _drain(settings: dict[str, Any], kind: str, why: str, call: Call) -> None:
    """Drains the node. Where Slurm does not take it, the exit code tells it to drain by itself."""
    node.drain(settings["node"], kind, why, call)
