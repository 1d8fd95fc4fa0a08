"""Slurm on a host: its state, its changes, and what prevents them.

It comes from the inventory, not from the lock.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from . import paths

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Stack, State

NAME = "slurm"


def look(context: Context) -> dict[str, Any]:
    """{version, here} and, where Slurm is wished for, what is compared with the wish."""
    return {"version": None, "here": context.isdir(paths.PLACE)}


def differ(_stack: Stack, _state: State, _options: Options) -> Changes:
    """Changes of Slurm; none where there is none and none is wished for."""
    return []


def survey(context: Context, facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `slurm`: what a run has to wait for on a node."""
    from . import jobs_first

    return jobs_first.survey(context, facts, changes)
