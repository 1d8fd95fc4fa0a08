"""A search over finite choices: the best assignment that every rule allows, or the smallest clash.

Why not resolvelib, which ansible-core brings along: it was made for packages whose requirements are
found by downloading them, one at a time, and gives up with the requirements at which it happened to
stop. Here all candidates are known beforehand and few (some tens per variable), rules join any
variables, and what a person needs is the *smallest* set of wishes that clash, which takes an answer
to many small questions of the form "and without this one?".

Why a plain search is complete: `solve` tries the candidates of each variable in their order, and
leaves out only what a rule forbids together with those already chosen (forward checking). Any
assignment that breaks no rule is never left out; so it returns None only if there is none, and what
it returns is the first in the order of preference. (tests/unit/generator/test_search.py holds it
against the product of all candidates.)

Pure: no clock, no disk, no randomness; the same problem has the same answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Assignment = Mapping[str, Any]
Order = Callable[[Any, Assignment], Any]


@dataclass(frozen=True)
class Rule:
    """What must hold between two or more variables. `holds` takes their values, in this order."""

    name: str
    variables: tuple[str, ...]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Demand:
    """What one variable is asked to be: a wish, or a fact of the host. `text` tells it."""

    name: str
    variable: str
    holds: Callable[[Any], bool]
    text: str = ""


@dataclass(frozen=True)
class Problem:
    """Variables in the order in which they are chosen, each with its candidates, best first.

    `order` gives a key by which the candidates of a variable are sorted once those before it are
    chosen; without one their own order counts. Sorting is stable.
    """

    candidates: Mapping[str, Sequence[Any]]
    rules: Sequence[Rule]
    order: Mapping[str, Order] = field(default_factory=dict)
    # What rules have answered for which candidates (kept alive, for they are known by identity);
    # may be shared by problems of the same rules.
    answers: dict[Any, tuple[bool, list[Any]]] = field(default_factory=dict, repr=False)

    def solve(self, demands: Sequence[Demand] = ()) -> dict[str, Any] | None:
        """The best assignment of all variables that fulfils every rule and demand, or None."""
        names = list(self.candidates)
        left = {
            name: [
                value
                for value in self.candidates[name]
                if all(one.holds(value) for one in demands if one.variable == name)
            ]
            for name in names
        }
        return self._extend(names, {}, left)

    def _extend(
        self, names: Sequence[str], chosen: dict[str, Any], left: Mapping[str, Sequence[Any]]
    ) -> dict[str, Any] | None:
        """The best way to choose the variables `names` too; `left` are their candidates still."""
        if any(not left[name] for name in names):
            return None
        if not names:
            return dict(chosen)
        name, rest = names[0], names[1:]
        values = left[name]
        if name in self.order:
            key = self.order[name]
            values = sorted(values, key=lambda value: key(value, chosen))
        for value in values:
            chosen[name] = value
            found = self._extend(rest, chosen, self._narrowed(name, rest, chosen, left))
            if found is not None:
                return found
        chosen.pop(name, None)
        return None

    def _narrowed(
        self,
        name: str,
        rest: Sequence[str],
        chosen: Mapping[str, Any],
        left: Mapping[str, Sequence[Any]],
    ) -> dict[str, Sequence[Any]]:
        """What `name`, chosen just now, leaves of the others: by each rule that lacks just one.

        So a rule has been asked before the last of its variables is chosen.
        """
        narrowed = {other: left[other] for other in rest}
        for rule in self.rules:
            lacking = [one for one in rule.variables if one not in chosen]
            if name in rule.variables and len(lacking) == 1:
                (other,) = lacking
                narrowed[other] = [
                    value
                    for value in narrowed[other]
                    if self._allows(rule, {**chosen, other: value})
                ]
        return narrowed

    def _allows(self, rule: Rule, values: Assignment) -> bool:
        """`rule.holds`, asked once for the same candidates."""
        asked = [values[variable] for variable in rule.variables]
        key = (rule.name, *map(id, asked))
        if key not in self.answers:
            self.answers[key] = (rule.holds(*asked), asked)
        return self.answers[key][0]

    def clash(self, demands: Sequence[Demand]) -> tuple[Demand, ...]:
        """The smallest set of demands that cannot be fulfilled together; empty if all can.

        Of several smallest sets the first in the order of `demands`. Without any one of its members
        the rest can be fulfilled (otherwise the rest would have been found before it).
        """
        if self.solve(demands) is not None:
            return ()
        for size in range(1, len(demands)):
            for some in itertools.combinations(demands, size):
                if self.solve(some) is None:
                    return some
        return tuple(demands)

    def reasons(self, demands: Sequence[Demand]) -> tuple[Rule, ...]:
        """Of the rules, a set that makes `demands` clash, with none in it that could be left out.

        Rules that stand first are kept rather than those after them. ValueError for demands that
        do not clash.
        """
        if self.solve(demands) is not None:
            raise ValueError("these demands can be fulfilled")
        needed = list(self.rules)
        for rule in reversed(self.rules):
            fewer = [one for one in needed if one is not rule]
            if Problem(self.candidates, fewer, {}, self.answers).solve(demands) is None:
                needed = fewer
        return tuple(needed)
