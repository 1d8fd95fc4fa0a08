"""Runs a tree's playbook and tells what came of it.

`ansible-playbook` runs as a process of its own, with the terminal's prompts (-K) left to it: its
exit code alone can't say whether a host failed, was blocked or drifted, so the report that the
tree's callback wrote says that. Knows nothing of the generator: any rendered tree will do.
"""

from __future__ import annotations

from provision.run.hosts import ansible, answer, ask, sourced
from provision.run.options import Mode, Options, arguments, inventory_sources
from provision.run.playbook import Outcome, ask_doctor, outcome_code, run_playbook
from provision.run.process import Event, Tail
from provision.run.programs import environment, find_program

__all__ = [
    "Event",
    "Mode",
    "Options",
    "Outcome",
    "Tail",
    "ansible",
    "answer",
    "arguments",
    "ask",
    "ask_doctor",
    "environment",
    "find_program",
    "inventory_sources",
    "outcome_code",
    "run_playbook",
    "sourced",
]
