"""Runs a tree's playbook and returns its outcome.

`ansible-playbook` runs as a process of its own and prompts on the terminal itself (-K). Its exit
code alone can't say whether a host failed, was blocked or drifted; the report written by the tree's
callback does. Independent of the generator: any rendered tree will do.
"""

from __future__ import annotations

from provision.run.hosts import ansible, answer, ask, sourced, unwrapped
from provision.run.options import Mode, Options, arguments, inventories, inventory_sources
from provision.run.playbook import (
    ACCEPTANCE,
    DOCTOR,
    Examination,
    Outcome,
    examine,
    outcome_code,
    run_playbook,
)
from provision.run.process import Event, Tail
from provision.run.programs import environment, find_program
from provision.run.training import Training, train

__all__ = [
    "ACCEPTANCE",
    "DOCTOR",
    "Event",
    "Examination",
    "Mode",
    "Options",
    "Outcome",
    "Tail",
    "Training",
    "ansible",
    "answer",
    "arguments",
    "ask",
    "environment",
    "examine",
    "find_program",
    "inventories",
    "inventory_sources",
    "outcome_code",
    "run_playbook",
    "sourced",
    "train",
    "unwrapped",
]
