"""Slurm on a host: its state, its changes, and what prevents them.

It comes from the inventory, not from the lock. A node compares its own part and what slurmctld says
of it; the controller its configuration with the parts that its hosts have given. Without Slurm or a
wish for it the look reads one name in /etc and nothing else.
"""

from __future__ import annotations

from ...change import change, is_touched
from ...type_checking import TYPE_CHECKING
from . import paths

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Stack, State

NAME = "slurm"


def look(context: Context) -> dict[str, Any]:
    """{version, here} and, where Slurm is wished for, what is compared with the wish.

    The version is the cluster's name, for receipts and reports.
    """
    here = context.isdir(paths.PLACE)
    seen: dict[str, Any] = {"version": None, "here": here}
    wished = context.options.get("slurm_state") == "present"
    if not here and not wished:
        return seen
    from . import current

    return dict(seen, **current.look(context, wished))


def differ(_stack: Stack, state: State, options: Options) -> Changes:
    """Changes of Slurm; none where there is none and none is wished for."""
    if options.get("slurm_state") != "present":
        if not state["here"]:
            return []
        item = "cluster " + (state["version"] or "")
        return [change(NAME, item.strip(), "here", None, "slurm_state is absent")]
    from . import current

    return [change(NAME, *words) for words in current.differences(state, options)]


def still_computes(facts: Facts, changes: Changes) -> bool:
    """Whether a host stays a node that is to run no jobs any more: these changes leave it one."""
    state = facts["state"].get(NAME) or {}
    return bool(state.get("leaves")) and not is_touched(changes, NAME)


def survey(context: Context, facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `slurm`: what stands in the way, where something of it changes.

    And its `slurm_drain`: whose jobs a run has to wait for on a node.
    """
    from . import jobs_first

    surveyed = jobs_first.survey(context, facts, changes)
    if is_touched(changes, NAME):
        from . import obstacles

        surveyed["slurm"] = obstacles.survey(context, facts)
    return surveyed
