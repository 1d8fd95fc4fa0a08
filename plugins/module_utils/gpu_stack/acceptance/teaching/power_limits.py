"""A power limit in which a card differs from its like: reported, never a fault.

A lower power limit is somebody's choice more often than a mistake. Cards of another limit are not
compared in their speed: this says why.
"""

from __future__ import annotations

import collections

from ...type_checking import TYPE_CHECKING
from ..figures import product
from ..findings import MEASURED
from .bounds import ENOUGH

if TYPE_CHECKING:
    from typing import Any

CHECK = "power"


def differing(verdicts: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """[(host, row of `teach`)] of cards whose power limit is not that of most like cards."""
    groups: dict[Any, list[tuple[str, int, dict[str, Any]]]] = {}
    for host, verdict in verdicts.items():
        for place, gpu in enumerate(verdict["gpus"]):
            if gpu["measured"].get("power_limit"):
                model = gpu["name"] and product(gpu["name"])
                kind = (model, gpu["part"], verdict["simulated"])
                groups.setdefault(kind, []).append((host, place, gpu))
    return [row for group in groups.values() for row in _odd(group)]


def _odd(group: list[tuple[str, int, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    limits = [gpu["measured"]["power_limit"] for _name, _index, gpu in group]
    ((common, count),) = collections.Counter(limits).most_common(1)
    if count < ENOUGH or 2 * count <= len(group):
        return []
    words = "{0} like cards may take {1:.0f} W".format(count, common / 1000)
    return [
        (
            host,
            {"gpu": place, "at": at, "finding": dict(entry, evidence=[*entry["evidence"], words])},
        )
        for host, place, gpu in group
        if gpu["measured"]["power_limit"] != common
        for at, entry in enumerate(gpu["checks"])
        if entry["check"] == CHECK and entry["state"] == MEASURED
    ]
