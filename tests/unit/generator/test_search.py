"""The search is complete and in order, and a clash is the smallest: against trying everything."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.resolve.search import Demand, Problem, Rule

NAMES = ("a", "b", "c", "d", "e")
# Of neighbours, and of variables with others between them that a rule may not name.
RULED = [("a", "b"), ("b", "c"), ("a", "d"), ("d", "a"), ("e", "b"), ("a", "c", "e")]


def forbids(name: str, variables: tuple[str, ...], together: set[tuple[int, ...]]) -> Rule:
    return Rule(name, variables, lambda *values: values not in together)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, list[Demand]]:
    candidates = {name: list(range(draw(st.integers(1, 3)))) for name in NAMES}
    rules = []
    for number, ruled in enumerate(RULED):
        every = list(itertools.product(*(range(3) for _ in ruled)))
        rules.append(forbids(f"r{number}", ruled, set(draw(st.lists(st.sampled_from(every))))))
    demands = []
    for number, name in enumerate(draw(st.lists(st.sampled_from(NAMES), max_size=4))):
        allowed = draw(st.sets(st.integers(0, 2)))
        demands.append(Demand(f"d{number}", name, allowed.__contains__))
    return Problem(candidates, rules), demands


def everything(problem: Problem, demands: list[Demand]) -> list[dict[str, Any]]:
    """Every assignment that is allowed, best first, by trying all."""
    found = []
    for values in itertools.product(*problem.candidates.values()):
        assignment = dict(zip(problem.candidates, values, strict=True))
        if all(
            rule.holds(*[assignment[v] for v in rule.variables]) for rule in problem.rules
        ) and all(demand.holds(assignment[demand.variable]) for demand in demands):
            found.append(assignment)
    return found


@given(problems())
def test_the_first_of_all_that_are_allowed(case: tuple[Problem, list[Demand]]) -> None:
    problem, demands = case
    allowed = everything(problem, demands)
    assert problem.solve(demands) == (allowed[0] if allowed else None)


def test_values_not_to_blame_are_jumped_over_and_no_others() -> None:
    """Problems with so many forbidden values that nearly each search has to go back."""
    solved = 0
    for seed in range(400):
        random = Random(seed)  # noqa: S311 (no secret)
        rules = [
            forbids(
                f"r{number}",
                ruled,
                {
                    values
                    for values in itertools.product(range(3), repeat=len(ruled))
                    if random.random() < 0.45
                },
            )
            for number, ruled in enumerate(RULED)
        ]
        problem = Problem({name: list(range(3)) for name in NAMES}, rules)
        allowed = everything(problem, [])
        assert problem.solve() == (allowed[0] if allowed else None), seed
        solved += bool(allowed)
    assert 50 < solved < 350


@given(problems())
def test_the_smallest_clash(case: tuple[Problem, list[Demand]]) -> None:
    problem, demands = case
    if everything(problem, []) == []:
        return  # a catalog in which nothing fits is no wish's fault
    clash = problem.clash(demands)
    if everything(problem, demands):
        assert clash == ()
        return
    assert not everything(problem, list(clash))
    for demand in clash:
        assert everything(problem, [other for other in clash if other is not demand])
    for size in range(len(clash)):
        for fewer in itertools.combinations(demands, size):
            assert everything(problem, list(fewer))


@given(problems())
def test_every_reason_is_needed(case: tuple[Problem, list[Demand]]) -> None:
    problem, demands = case
    if everything(problem, demands):
        with pytest.raises(ValueError, match="can be fulfilled"):
            problem.reasons(demands)
        return
    reasons = problem.reasons(demands)
    assert not everything(Problem(problem.candidates, reasons), demands)
    for reason in reasons:
        fewer = [rule for rule in reasons if rule is not reason]
        assert everything(Problem(problem.candidates, fewer), demands)


def test_an_order_may_look_at_what_was_chosen_before() -> None:
    problem = Problem(
        {"a": [1, 2], "b": [1, 2, 3]},
        [Rule("differ", ("a", "b"), lambda a, b: a != b)],
        {"b": lambda value, chosen: abs(value - chosen["a"])},
    )
    assert problem.solve() == {"a": 1, "b": 2}
    assert problem.solve([Demand("two", "a", lambda a: a == 2)]) == {"a": 2, "b": 1}


def test_a_variable_without_candidates_has_no_answer() -> None:
    assert Problem({"a": []}, []).solve() is None
