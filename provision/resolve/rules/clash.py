"""A rule that can say itself where it is in the way, and what it says that of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provision.catalog import TensorflowRow
from provision.resolve.preferences import INSTALLED
from provision.resolve.search import Demand, Problem, Rule


@dataclass(frozen=True)
class Fact(Rule):
    """A fact of the catalog as a rule. `tell` says it where it is part of a clash."""

    tell: Callable[[Problem, Sequence[Demand]], str]
    # What is in the way, in a word or two, for the table of what runs where.
    word: str = ""


def releases_of(problem: Problem, clash: Sequence[Demand]) -> list[TensorflowRow]:
    """The TensorFlow releases that the clash leaves, newest first."""
    held = [one for one in clash if one.variable == "tensorflow"]
    fitting = [t for t in problem.candidates["tensorflow"] if all(one.holds(t) for one in held)]
    return _unique_rows(t.row for t in fitting)


def _unique_rows(rows: Iterable[TensorflowRow]) -> list[TensorflowRow]:
    found: dict[str, TensorflowRow] = {}
    for row in rows:
        found.setdefault(row.release, row)
    return list(found.values())


def left_of(problem: Problem, clash: Sequence[Demand], variable: str) -> list[Any]:
    """The candidates of a variable that the clash's own demands leave.

    Of platforms, where none was asked for, those that could have all but one of the demands.
    """
    held = [one for one in clash if one.variable == variable]
    left = [v for v in problem.candidates[variable] if all(one.holds(v) for one in held)]
    if variable != "platform" or held:
        return left
    for more in (INSTALLED, ()):
        near = []
        for platform in left:
            here = Demand("platform", "platform", platform.__eq__)
            fewer = ([one for one in clash if one is not other] for other in clash)
            if any(problem.solve([*rest, here, *more]) for rest in fewer):
                near.append(platform)
        if near:
            return near
    return left


def is_asked(clash: Sequence[Demand], variable: str) -> bool:
    """Does the clash ask something of this variable?"""
    return any(one.variable == variable for one in clash)
