"""A suspect is tried again before it is accused: of two tries the better one counts.

Somebody's program on the host, or a card that had to warm up, makes one try slow, and none makes
one fast.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import MEASURED
from . import bounds, counters
from .rates import number

if TYPE_CHECKING:
    from typing import Any


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first verdict, with the better value of each figure that both tries measured.

    The second try's other findings are ignored: it was run for its figures.
    """
    again = {gpu["index"]: gpu for gpu in second["gpus"]}
    gpus = []
    for gpu in first["gpus"]:
        retried = again.get(gpu["index"])
        if retried is not None and retried["uuid"] == gpu["uuid"]:
            gpu = dict(gpu, checks=_checks(gpu["checks"], retried["checks"]))
        gpus.append(gpu)
    return dict(first, checks=_checks(first["checks"], second["checks"]), gpus=gpus)


def _checks(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tries = {_name(entry): entry for entry in second if "figure" in entry}
    return [
        _better(entry, tries[_name(entry)])
        if entry["state"] == MEASURED and _name(entry) in tries
        else entry
        for entry in first
    ]


def _name(entry: dict[str, Any]) -> tuple[str, Any]:
    return entry["check"], entry.get("figure", {}).get("name")


def _better(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    if first["figure"]["name"] in counters.LIMITS:
        return first
    earlier, later = first["figure"], second["figure"]
    line = "measured twice: {0} and {1} {2}".format(
        number(earlier["value"]), number(later["value"]), earlier["unit"]
    )
    best = second if bounds.worse(earlier["value"], later["value"], earlier["better"]) else first
    return dict(best, evidence=[*best["evidence"], line])
