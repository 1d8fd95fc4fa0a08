"""Which stack of a lock the pods are for, and the label by which they find its hosts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.errors import InputError
from provision.lock import Lock, names_of

# Set on every node that this program provisioned, with the stack that it has.
LABEL = "provision.gpu/stack"
TOOLKIT = "nvidia_container_toolkit"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_LENGTH = 63


@dataclass(frozen=True)
class Chosen:
    """The stack that the image is made of, and the one that its hosts have.

    They differ where a TensorFlow beside the host's first one is chosen.
    """

    name: str
    hosts: str
    platform: Mapping[str, str]

    @property
    def label(self) -> str:
        """The label's value on the hosts."""
        return label(self.hosts)


def label(stack: str) -> str:
    """A stack's name as the value of a label; a longer one is cut and ends with its hash."""
    text = re.sub(r"[^A-Za-z0-9._-]", "_", stack)
    if len(text) <= LABEL_LENGTH and text == stack:
        return text
    mark = hashlib.sha256(stack.encode()).hexdigest()[:8]
    return f"{text[: LABEL_LENGTH - len(mark) - 1].rstrip('._-')}-{mark}"


def choose(lock: Lock, name: str, *, where: str) -> Chosen:
    """The stack of this name; of "" the only one. InputError where there is none, or a choice."""
    every = {stack: row for row in reversed(lock.slim["rows"]) for stack in names_of(row)}
    if name and name not in every:
        raise InputError(
            "the lock has no such stack",
            where=where,
            got=name,
            expected=" or ".join(sorted(every)) or "a stack of the lock",
        )
    ready = {stack: row for stack, row in every.items() if TOOLKIT in lock.stacks[row["stack"]]}
    if not ready or (name and name not in ready):
        raise InputError(
            "no pod gets a GPU of these hosts: their stack has no NVIDIA container toolkit",
            where=where,
            got=name or ", ".join(sorted(every)),
            expected='gpu_stack: {tensorflow: "...", container_toolkit: true}',
            hint="add the word to the inventory, then `provision lock` and a run on the hosts",
        )
    if not name and len(ready) > 1:
        raise InputError(
            "the lock has several stacks, and an image is of one",
            where=where,
            expected="--stack " + " or ".join(sorted(ready)),
        )
    chosen = name or next(iter(ready))
    row: Mapping[str, Any] = ready[chosen]
    return Chosen(chosen, row["stack"], row["platform"])
