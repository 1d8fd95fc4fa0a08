"""A suspect is tried again before it is accused: of two tries the better one counts.

Somebody's program on the host, or a card that had to warm up, makes one try slow, and none makes
one fast.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import MEASURED
from ..words import SILENT
from . import bounds, counters
from .rates import number

if TYPE_CHECKING:
    from typing import Any


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The first verdict, with the better value of each figure that both tries measured.

    Where the second could not measure one because somebody used the card by then, who may have done
    so in the first already, that is compared with nothing. The second try's other findings are
    ignored: it was run for its figures.
    """
    again = {gpu["index"]: gpu for gpu in second["gpus"]}
    gpus = []
    kept_from: list[str | None] = []
    for gpu in first["gpus"]:
        retried = again.get(gpu["index"])
        if retried is not None and retried["uuid"] == gpu["uuid"]:
            why = _left_alone(retried)
            if any(_is_rate(entry) for entry in gpu["checks"]):
                kept_from.append(why)
            gpu = dict(gpu, checks=_checks(gpu["checks"], retried["checks"], why))
        gpus.append(gpu)
    why = next(filter(None, kept_from), None)
    return dict(first, checks=_checks(first["checks"], second["checks"], why), gpus=gpus)


def _left_alone(gpu: dict[str, Any]) -> str | None:
    """Why a card was not loaded; one that does not answer has no excuse in that."""
    why: str | None = gpu.get("left_alone")
    return None if why == SILENT else why


def _is_rate(entry: dict[str, Any]) -> bool:
    """Whether a finding has a figure of which another try may say more; a counter's says none."""
    return "figure" in entry and entry["figure"]["name"] not in counters.LIMITS


def _checks(
    first: list[dict[str, Any]], second: list[dict[str, Any]], why: str | None
) -> list[dict[str, Any]]:
    """`why`: who was in the way of the figures that the second try has not."""
    tries = {_name(entry): entry for entry in second}
    return [
        _tried(entry, tries.get(_name(entry)), why)
        if entry["state"] == MEASURED and _is_rate(entry)
        else entry
        for entry in first
    ]


def _tried(first: dict[str, Any], second: dict[str, Any] | None, why: str | None) -> dict[str, Any]:
    if second is not None:
        return _better(first, second)
    if not why:
        return first
    bare = {key: value for key, value in first.items() if key != "figure"}
    line = "not compared, as it was not measured again: {0}".format(why)
    return dict(bare, evidence=[*first["evidence"], line])


def _name(entry: dict[str, Any]) -> tuple[str, Any]:
    return entry["check"], entry.get("figure", {}).get("name")


def _better(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    earlier, later = first["figure"], second["figure"]
    line = "measured twice: {0} and {1} {2}".format(
        number(earlier["value"]), number(later["value"]), earlier["unit"]
    )
    best = second if bounds.worse(earlier["value"], later["value"], earlier["better"]) else first
    return dict(best, evidence=[*best["evidence"], line])
