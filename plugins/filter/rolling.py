"""The batches of a rolling run: which host is tried first, and how many come after it.

A play's keywords know no host's variables: gpu_canary and gpu_serial come with -e or not at all.
"""

from __future__ import annotations

import re
from typing import Any


def _counts(canary: Any) -> bool:
    """A number of hosts, and not the name of one."""
    return re.fullmatch(r"[0-9]+", str(canary)) is not None


def _names(canary: Any) -> bool:
    """Something that can be a host's name; a pattern would choose several."""
    return not _counts(canary) and re.fullmatch(r"\w[\w.-]*", str(canary), re.ASCII) is not None


def canary_first(pattern: str, canary: Any) -> list[str] | str:
    """`hosts` of the play: the named canary before the others; who comes twice is one host."""
    return [str(canary), pattern] if _names(canary) else pattern


def canary_alone(batches: Any, canary: Any) -> Any:
    """`serial` of the play: the canary, named or counted, is a batch of its own before the rest."""
    if not str(canary):
        return batches
    rest = batches if isinstance(batches, list) else [batches]
    return [int(canary) if _counts(canary) else 1, *rest]


def proves_something(wished: list[str], canary: Any) -> bool:
    """Whether the first batch is the canary; `wished`: its hosts that have a gpu_stack."""
    if _counts(canary):
        return int(canary) > 0 and bool(wished)
    return wished == [canary]


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Any]:
        return {
            "canary_first": canary_first,
            "canary_alone": canary_alone,
            "proves_something": proves_something,
        }
