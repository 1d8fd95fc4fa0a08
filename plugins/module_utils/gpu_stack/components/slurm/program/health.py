"""Slurm's HealthCheckProgram: drains this node where its GPUs are not well, takes it back after.

It loads nothing, and takes a minute at most: slurmd ends it then.
"""

from __future__ import annotations

import os

from . import gpus, jobs_devices, node, programs, words

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

    Call = Callable[[list[str], float], tuple[int, str, str]]


def fault(settings: dict[str, Any], call: Call = programs.call) -> str | None:
    """What is wrong with the node's GPUs; None where they are well, or it has none."""
    open_ones = jobs_devices.opened(settings.get("closed") or [])
    if open_ones:
        return "jobs can open {0}, not Slurm's: systemctl restart slurmd".format(
            ", ".join(open_ones)
        )
    if not settings.get("gpus"):
        return None
    return gpus.missing(settings["gpus"], call) or gpus.fatal_xid(
        settings.get("fatal_xids") or [], call
    )


def check(settings: dict[str, Any], call: Call = programs.call) -> str:
    """Tells Slurm how the node is; a line about what was done. Raises node.SilentError."""
    name = settings["node"]
    wrong = fault(settings, call)
    if wrong is not None:
        done = node.drain(name, words.HEALTH, wrong, call)["done"]
        return "{0}: {1}".format("drained" if done else "drained already", wrong)
    kinds = [words.HEALTH]
    # Asked only where it was the reason: to look at all processes takes its time.
    seen = node.look(name, call)
    if seen["kind"] in (words.PROLOG, words.EPILOG):
        strangers = _strangers(settings, call)
        if strangers:
            return "drained already: " + gpus.said(strangers[0])
        kinds += [words.PROLOG, words.EPILOG]
    if seen["kind"] not in kinds:
        return "well"
    if os.path.lexists(node.RUNS):
        return "well, but a run has the node for itself"
    return "taken back" if node.lift(name, *kinds, call=call)["done"] else "well"


def _strangers(settings: dict[str, Any], call: Call) -> list[dict[str, Any]]:
    """Who holds the GPUs and is of no job that is at work: what a job has left is of none."""
    found = gpus.holders(settings["gpus"], call)
    if any(entry["job"] for entry in found):
        alive = node.at_work(settings["node"], call)
        found = [entry for entry in found if entry["job"] not in alive]
    return found
