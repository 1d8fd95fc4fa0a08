"""A node of Slurm's whose programs answer as told, what is seen of it and what is planned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import slurm_host
from converged_host import Host
from gpu_stack.components import slurm
from gpu_stack.host.context import Context, Result
from slurm_host import NODE, SHOWN

RUNNING = "\n".join(["active"] * 5)


class Answers:
    """A host's programs: the words of each by its first arguments."""

    def __init__(self, **outputs: str) -> None:
        self.outputs = {"systemctl": RUNNING, "timeout": SHOWN, **outputs}

    def __call__(self, argv: Sequence[str]) -> Result:
        text = self.outputs.get(argv[0], "")
        if argv[0] == "systemctl":
            text = "\n".join(text.split("\n")[: len(argv) - 2])
        return Result(1 if text.startswith("error") else 0, text, text)


def node_host(root: Path) -> Host:
    """A node as PART says, with two GPUs and all that a run brings."""
    host = made.make(root)
    slurm_host.bring(host)
    return host


def context(host: Host, options: dict[str, Any], **outputs: str) -> Context:
    return Context(root=str(host.root), options=options, runner=Answers(**outputs))


def plan(host: Host, options: dict[str, Any] = NODE, **outputs: str) -> list[tuple[Any, ...]]:
    seen = slurm.look(context(host, options, **outputs))
    changes = slurm.differ({}, seen, options)
    return [(change["item"], change["from"], change["to"], change["reason"]) for change in changes]
