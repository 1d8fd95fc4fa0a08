"""A rule that can explain its part in a clash, and helpers for such explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provision.catalog.rows import TensorflowRow
from provision.resolve.preferences import INSTALLED
from provision.resolve.search import Demand, Problem, Rule


@dataclass(frozen=True)
class Fact(Rule):
    """A fact of the catalog as a rule. `tell` explains its part in a clash."""

    tell: Callable[[Problem, Sequence[Demand]], str]
    # The obstacle in a word or two, for the table of what runs where.
    word: str = ""


def releases_of(problem: Problem, clash: Sequence[Demand]) -> list[TensorflowRow]:
    """The TensorFlow releases that the clash leaves, newest first."""
    demands = [demand for demand in clash if demand.variable == "tensorflow"]
    fitting = [
        t for t in problem.candidates["tensorflow"] if all(demand.holds(t) for demand in demands)
    ]
    return _unique_rows(t.row for t in fitting)


def _unique_rows(rows: Iterable[TensorflowRow]) -> list[TensorflowRow]:
    by_release: dict[str, TensorflowRow] = {}
    for row in rows:
        by_release.setdefault(row.release, row)
    return list(by_release.values())


def left_of(problem: Problem, clash: Sequence[Demand], variable: str) -> list[Any]:
    """The candidates of a variable that the clash's own demands leave.

    Where no platform is demanded, the platforms that can have all but one of the demands.
    """
    demands = [demand for demand in clash if demand.variable == variable]
    left = [v for v in problem.candidates[variable] if all(demand.holds(v) for demand in demands)]
    if variable != "platform" or demands:
        return left
    for more in (INSTALLED, ()):
        near = []
        for platform in left:
            on_it = Demand("platform", "platform", platform.__eq__)
            all_but_one = ([d for d in clash if d is not dropped] for dropped in clash)
            if any(problem.solve([*fewer, on_it, *more]) for fewer in all_but_one):
                near.append(platform)
        if near:
            return near
    return left


def is_asked(clash: Sequence[Demand], variable: str) -> bool:
    """Whether the clash has a demand on this variable."""
    return any(demand.variable == variable for demand in clash)
