"""How fast a card is: judged by the strictest of the catalog, its like and its own history.

Each teacher says the worst value that is still ordinary, or nothing. The strictest of them is the
threshold: it would be the first to see a fault, and which it was does not depend on an order.
"""

from __future__ import annotations

import collections
from statistics import median

from ...type_checking import TYPE_CHECKING
from ..figures import figures
from ..findings import DEGRADED, finding, ok
from . import bounds, counters
from .subjects import figures_of

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .history import Earlier

# {figure of the catalog: the share of it that every healthy card reaches}. Published figures are
# peaks that no card holds: of NVIDIA's, the T4 stays farthest below under a lasting load, with 24
# of 65 TFLOP/s for want of power, as NVIDIA says
# (https://forums.developer.nvidia.com/t/about-gpu-peak-performance/264462). So they show what is
# broken, and like cards what is slow.
OF_PUBLISHED = {"fp32_tflops": 0.35, "fp16_tensor_tflops": 0.3}
# {unit: (how far below like cards, how far below its own past a card may be)}, as shares of the
# median. Equal cards differ by 8 % on the average of many programs and clusters
# (https://arxiv.org/abs/2208.11035); one card differs less from itself. Images a second depend on
# the host as well, and copies on which socket a card is at.
ORDINARY = {"TFLOP/s": (0.15, 0.1), "images/s": (0.18, 0.15)}
OTHERS = (0.3, 0.25)
# Of a card's own values, how many count; of those of hosts outside this run, how old one may be.
LAST = 20
DAYS = 90
CATALOG, FLEET, HISTORY = "catalog", "fleet", "history"
# What one teacher says. limit: the worst that is ordinary; why: in words; source: which it is.
Lesson = collections.namedtuple("Lesson", "limit source why")
COOLING = (
    "look at its cooling, its power cables and what else runs on the host; if all is well, have "
    "the card replaced"
)
SHARED = "cards like it are as slow: look at what they share (driver, TensorFlow, power, cooling)"


class Rates:
    """The teachers of everything that is no counter, for the subjects of one acceptance."""

    def __init__(self, present: Sequence[Any], earlier: Sequence[Earlier], now: float) -> None:
        # {(id, like, figure): values}, the oldest first.
        self._past: dict[tuple[str, str, str], list[float]] = {}
        # {(like, figure): values}: this acceptance's, and the last of cards that are not in it.
        self._fleet: dict[tuple[str, str], list[float]] = {}
        # The lesson of all like cards: {(like, figure, unit, better): Lesson or None}.
        self._fleet_lessons: dict[tuple[str, str, str, str], Any] = {}
        here = {subject.id for subject in present}
        last: dict[tuple[str, str, str], float] = {}
        believed = [entry for entry in earlier if entry.good and entry.time < now]
        for entry in sorted(believed, key=lambda entry: (entry.time, entry.value)):
            key = (entry.id, entry.like, entry.figure)
            if entry.id in here:
                self._past.setdefault(key, []).append(entry.value)
            elif entry.time >= now - DAYS * 86400:
                last[key] = entry.value
        for (_id, like, figure), value in last.items():
            self._fleet.setdefault((like, figure), []).append(value)
        for subject in present:
            for _at, row in figures_of(subject):
                fleet_key = (subject.like, row["figure"]["name"])
                self._fleet.setdefault(fleet_key, []).append(row["figure"]["value"])

    def judge(self, subject: Any, entry: dict[str, Any]) -> dict[str, Any] | None:
        """The finding; None where there is nothing to compare the figure with."""
        figure = entry["figure"]
        if figure["name"] in counters.LIMITS:
            return None
        lessons = self._lessons(subject, figure)
        if not lessons:
            return None
        better, value = figure["better"], figure["value"]
        first = max(lessons, key=lambda lesson: _strictness(lesson, better))
        slow = bounds.worse(value, first.limit, better)
        compared = _compared(first, figure, slow)
        evidence = [*entry["evidence"], *_others(lessons, first, figure)]
        more = {
            "threshold": float("{0:.4g}".format(first.limit)),
            "source": first.source,
            "figure": figure,
        }
        reason = "{0}; {1}".format(entry["reason"], compared)
        if not slow:
            return dict(ok(reason, evidence=evidence, **more), check=entry["check"])
        action, how = self._next(subject, figure, first)
        judged = finding(DEGRADED, reason, evidence, action=action, how=how, **more)
        return dict(judged, check=entry["check"])

    def _lessons(self, subject: Any, figure: dict[str, Any]) -> list[Any]:
        lessons = (
            _published(subject, figure),
            self._like(subject, figure),
            self._before(subject, figure),
        )
        return [lesson for lesson in lessons if lesson is not None]

    def _like(self, subject: Any, figure: dict[str, Any]) -> Any:
        key = (subject.like, figure["name"], figure["unit"], figure["better"])
        if key not in self._fleet_lessons:
            values = self._fleet[subject.like, figure["name"]]
            limit = bounds.bound(values, _ordinary(figure)[0], figure["better"])
            why = "the median of {0} like {1} is {2}".format(
                len(values),
                "hosts" if subject.gpu is None else "cards",
                number(median(values)),
            )
            self._fleet_lessons[key] = None if limit is None else Lesson(limit, FLEET, why)
        return self._fleet_lessons[key]

    def _before(self, subject: Any, figure: dict[str, Any]) -> Any:
        values = self._past.get((subject.id, subject.like, figure["name"]), [])[-LAST:]
        limit = bounds.bound(values, _ordinary(figure)[1], figure["better"])
        if limit is None:
            return None
        why = "its median of {0} earlier acceptances is {1}".format(
            len(values), number(median(values))
        )
        return Lesson(limit, HISTORY, why)

    def _next(self, subject: Any, figure: dict[str, Any], first: Any) -> tuple[str, str]:
        """(action, how): a cause that like cards share is not the card's."""
        values = self._fleet[subject.like, figure["name"]]
        enough = len(values) >= bounds.ENOUGH
        if enough and bounds.worse(median(values), first.limit, figure["better"]):
            return "configure", SHARED
        if subject.gpu is None:
            return "watch", ""
        return ("reseat", "") if figure["unit"] == "GB/s" else ("service", COOLING)


def _published(subject: Any, figure: dict[str, Any]) -> Any:
    """What the catalog says; None for what it lacks, and for a card that is held back."""
    share = OF_PUBLISHED.get(figure["name"])
    row = figures(subject.model) if subject.plain and share else None
    value = row and getattr(row, figure["name"])
    if not value:
        return None
    return Lesson(share * value, CATALOG, "{0} is published for it".format(number(value)))


def _ordinary(figure: dict[str, Any]) -> tuple[float, float]:
    return ORDINARY.get(figure["unit"], OTHERS)


def _strictness(lesson: Any, better: str) -> float:
    limit: float = lesson.limit
    return -limit if better == bounds.LOWER else limit


def _compared(lesson: Any, figure: dict[str, Any], slow: bool) -> str:
    """ "at least 12.1 TFLOP/s: the median of 8 like cards is 14.3"."""
    low = figure["better"] == bounds.LOWER
    relation = {(False, False): "at least", (False, True): "less than",
                (True, False): "at most", (True, True): "more than"}[low, slow]  # fmt: skip
    return "{0} {1} {2}: {3}".format(relation, number(lesson.limit), figure["unit"], lesson.why)


def _others(lessons: list[Any], first: Any, figure: dict[str, Any]) -> list[str]:
    """What the teachers say that did not decide."""
    return [
        "{0}: {1}".format(
            lesson.source,
            _compared(
                lesson, figure, bounds.worse(figure["value"], lesson.limit, figure["better"])
            ),
        )
        for lesson in lessons
        if lesson is not first
    ]


def number(value: float) -> str:
    """Three digits that count: "14.2", "0.613", "1830"."""
    return "{0:.10g}".format(float("{0:.3g}".format(value)))
