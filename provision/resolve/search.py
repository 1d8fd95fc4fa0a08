"""A search over finite choices: the best assignment that every rule allows, or the smallest clash.

Why not resolvelib, which ansible-core brings along: it is made for packages whose requirements have
to be downloaded one at a time, and its error names the requirements at which it happened to stop.
Here all candidates are known beforehand and few (some tens per variable), rules join any variables,
and a person needs the *smallest* set of wishes that clash, which takes many small searches with one
wish left out.

Why a plain search is complete: `solve` tries the candidates of each variable in their order, and
leaves out only what a rule forbids together with those already chosen (forward checking). Where the
rest cannot be completed it asks which of the chosen values are to blame, and tries no other value
of a variable that is not among them (conflict-directed backjumping: Prosser, "Hybrid algorithms for
the constraint satisfaction problem", 1993). So it returns None only if no assignment keeps all
rules, and otherwise the first in the order of preference. (tests/unit/generator/test_search.py
compares it with the product of all candidates.)

Pure: no clock, no disk, no randomness; the same problem has the same answer.
"""

from __future__ import annotations

import functools
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
    """A condition on one variable: a wish, or a fact of the host. `text` is for people."""

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
    # (rule, ids of candidates) -> (its answer, the candidates, kept alive so that ids stay theirs);
    # may be shared by problems of the same rules.
    answers: dict[Any, tuple[bool, list[Any]]] = field(default_factory=dict, repr=False)

    def solve(self, demands: Sequence[Demand] = ()) -> dict[str, Any] | None:
        """The best assignment of all variables that fulfils every rule and demand, or None."""
        names = list(self.candidates)
        left = {
            name: [
                value
                for value in self.candidates[name]
                if all(demand.holds(value) for demand in demands if demand.variable == name)
            ]
            for name in names
        }
        result = self._extend(names, {}, left, dict.fromkeys(names, frozenset()))
        return result if isinstance(result, dict) else None

    def _extend(
        self,
        names: Sequence[str],
        chosen: dict[str, Any],
        left: Mapping[str, Sequence[Any]],
        blame: Mapping[str, frozenset[str]],
    ) -> dict[str, Any] | frozenset[str]:
        """The best assignment that extends `chosen` by `names`, whose candidates are `left`.

        Or, if there is none, variables of `chosen` whose values suffice for that. `blame` has, for
        each of `names`, those that took candidates away from it.
        """
        for name in names:
            if not left[name]:
                return blame[name]
        if not names:
            return dict(chosen)
        name, later = names[0], names[1:]
        values = left[name]
        if name in self.order:
            key = self.order[name]
            values = sorted(values, key=lambda value: key(value, chosen))
        to_blame = blame[name]
        for value in values:
            chosen[name] = value
            result = self._extend(later, chosen, *self._narrowed(name, chosen, left, blame))
            if isinstance(result, dict):
                return result
            if name not in result:
                to_blame = result
                break
            to_blame |= result - {name}
        del chosen[name]
        return to_blame

    def _narrowed(
        self,
        name: str,
        chosen: Mapping[str, Any],
        left: Mapping[str, Sequence[Any]],
        blame: Mapping[str, frozenset[str]],
    ) -> tuple[dict[str, Sequence[Any]], dict[str, frozenset[str]]]:
        """`left` and `blame` once `name` is chosen."""
        narrowed, blamed = dict(left), dict(blame)
        for rule, last in self._applied[name]:
            values = [
                value for value in narrowed[last] if self._allows(rule, {**chosen, last: value})
            ]
            if len(values) < len(narrowed[last]):
                narrowed[last] = values
                blamed[last] = blamed[last].union(rule.variables) - {last}
        return narrowed, blamed

    @functools.cached_property
    def _applied(self) -> dict[str, list[tuple[Rule, str]]]:
        """Variable -> rules that are applied once it is chosen, and the variable each narrows.

        That is when all but the last of a rule's variables are chosen.
        """
        places = {name: place for place, name in enumerate(self.candidates)}
        applied: dict[str, list[tuple[Rule, str]]] = {name: [] for name in self.candidates}
        for rule in self.rules:
            *_, before, last = sorted(rule.variables, key=lambda name: places[name])
            applied[before].append((rule, last))
        return applied

    def _allows(self, rule: Rule, values: Assignment) -> bool:
        """`rule.holds`, called once for the same candidates."""
        candidates = [values[variable] for variable in rule.variables]
        key = (rule.name, *map(id, candidates))
        if key not in self.answers:
            self.answers[key] = (rule.holds(*candidates), candidates)
        return self.answers[key][0]

    def clash(self, demands: Sequence[Demand]) -> tuple[Demand, ...]:
        """The smallest set of demands that cannot be fulfilled together; empty if all can.

        Of several smallest sets the first in the order of `demands`. Without any of its members the
        others can be fulfilled, or they would be a smaller set.
        """
        if self.solve(demands) is not None:
            return ()
        for size in range(1, len(demands)):
            for subset in itertools.combinations(demands, size):
                if self.solve(subset) is None:
                    return subset
        return tuple(demands)

    def reasons(self, demands: Sequence[Demand]) -> tuple[Rule, ...]:
        """A minimal set of rules that makes `demands` clash.

        Earlier rules are kept rather than later ones. ValueError for demands that do not clash.
        """
        if self.solve(demands) is not None:
            raise ValueError("these demands can be fulfilled")
        needed = list(self.rules)
        for rule in reversed(self.rules):
            fewer = [kept for kept in needed if kept is not rule]
            if Problem(self.candidates, fewer, {}, self.answers).solve(demands) is None:
                needed = fewer
        return tuple(needed)
