"""Why there is no stack: the smallest clash, the facts behind it, and what would work."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from provision.catalog import PlatformRow
from provision.errors import UnsatisfiableError
from provision.models import Gpu, Wish, plain
from provision.resolve.beside import narrowed
from provision.resolve.demands import demands as demands_of
from provision.resolve.preferences import DEFAULT_TENSORFLOW, INSTALLED, no_preference
from provision.resolve.rules.clash import Fact, left_of
from provision.resolve.rules.driver import drives
from provision.resolve.search import Demand, Problem
from provision.resolve.solver import Solver
from provision.resolve.words import (
    and_list,
    distance,
    flow,
    literal,
    nearest,
    parse_version,
    unique,
)


def in_the_way(
    solver: Solver, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu] = ()
) -> list[Fact]:
    """The rules that make the smallest clash; none where there is a stack."""
    problem = solver.problem(wish, gpus)
    clash = problem.clash(demands_of(wish, platform, gpus))
    return _facts_of(problem, clash) if clash else []


def refusal(
    solver: Solver,
    wish: Wish,
    platform: PlatformRow | None = None,
    gpus: Sequence[Gpu] = (),
    *,
    where: str = "gpu_stack",
) -> UnsatisfiableError:
    """Why not: the smallest set of wishes and facts that clash, and what would work."""
    problem = solver.problem(wish, gpus)
    demands = demands_of(wish, platform, gpus)
    clash = problem.clash(demands)
    unknown = _branch_for_gpus(solver, problem, wish, platform, clash)
    unknown = unknown or _unknown(solver, problem, wish, clash)
    if unknown is not None:
        unknown.where = where
        return unknown
    rules = _facts_of(problem, clash)
    facts = unique(rule.tell(problem, clash) for rule in rules)
    instead = _nvidias_driver_instead(solver, wish, platform, gpus)
    instead += _instead(solver, problem, wish, demands)
    return UnsatisfiableError(
        _headline(clash),
        where=where,
        got="; ".join(facts) or literal(wish),
        expected=" or ".join(instead[:3]) or "another wish, or another host",
        hint=_hint(clash, rules),
    )


def _facts_of(problem: Problem, clash: Sequence[Demand]) -> list[Fact]:
    """The rules that make it a clash; such of what was asked for rather than of all else."""
    asked = {one.variable for one in clash}
    rules = sorted(problem.rules, key=lambda rule: len({*rule.variables} - asked))
    clashing = Problem(problem.candidates, rules, {}, problem.answers).reasons(clash)
    return [rule for rule in clashing if isinstance(rule, Fact)]


def _unknown(
    solver: Solver, problem: Problem, wish: Wish, clash: Sequence[Demand]
) -> UnsatisfiableError | None:
    """A wish for what never existed, with the closest that does."""
    if len(clash) != 1 or left_of(problem, clash, clash[0].variable):
        return None
    known: dict[str, list[str]] = {
        "tensorflow": [v for r in solver.offered for v in (r.release, *r.patches)],
        "python": solver.candidates.pythons,
        "cuda": [v for c in solver.candidates.cudas for v in (c.release, c.version)],
        "cudnn": [c.version for c in solver.candidates.cudnns],
        "driver_branch": [
            d.version if "." in (wish.driver_branch or "") else d.branch
            for d in problem.candidates["driver"]
        ],
        "gcc": [g for g in solver.candidates.gccs if g],
        "container_toolkit": [t.version for t in solver.candidates.toolkits if t is not None],
    }
    word = clash[0].name
    if word == "driver_branch" and solver.candidates.is_branch(str(wish.driver_branch)):
        near = nearest(Version(str(wish.driver_branch)), known[word])
        return UnsatisfiableError(
            f"no platform has packages of driver branch {wish.driver_branch}",
            got=clash[0].text,
            expected=" or ".join(f'"{v}"' for v in near),
            hint="an installer of NVIDIA's is wished for by its exact version, with "
            "driver_source: runfile",
        )
    if word not in known or not known[word] or getattr(wish, word) == "":
        return None
    titles = {
        "tensorflow": "TensorFlow", "python": "Python", "cuda": "CUDA", "cudnn": "cuDNN",
        "driver_branch": "driver branch", "gcc": "gcc",
        "container_toolkit": "container toolkit",
    }  # fmt: skip
    asked = wish.cudnn.version if word == "cudnn" and wish.cudnn else getattr(wish, word)
    near = nearest(parse_version(asked, word), known[word])
    own = ', or {version: "...", cuda: "...", sha256: "<64 hex digits>"} of your own archive'
    return UnsatisfiableError(
        f"no {titles[word]} {asked} in the catalog",
        got=clash[0].text,
        expected=" or ".join(f'"{v}"' for v in near) + (own if word == "cudnn" else ""),
        hint="`provision catalog` shows what there is",
    )


def _nvidias_driver_instead(
    solver: Solver, wish: Wish, platform: PlatformRow | None, gpus: Sequence[Gpu]
) -> list[str]:
    """The same wish with NVIDIA's own driver, where that alone is in the way on this host."""
    if platform is None or wish.driver_source is not None:
        return []
    for source in ("network", "runfile"):
        other = narrowed(wish, driver_source=source)
        stack = solver.find(other, platform, gpus)
        if stack is not None and not stack.missing:
            return [f"{literal(other)} on {platform.title}"]
    return []


def _branch_for_gpus(
    solver: Solver,
    problem: Problem,
    wish: Wish,
    platform: PlatformRow | None,
    clash: Sequence[Demand],
) -> UnsatisfiableError | None:
    """A wish for a branch of NVIDIA's that does not drive the host's GPUs; None for another."""
    asked = str(wish.driver_branch)
    branch = asked.partition(".")[0]
    words = {one.name for one in clash}
    if "driver_branch" not in words or words - {"driver_branch", "gpus", "platform"}:
        return None
    if not solver.candidates.is_branch(branch):
        return None
    gpus = problem.candidates["gpus"][-1]
    like = next(iter(problem.candidates["driver"]), None)
    if like is None:
        return None
    wished = like.model_copy(update={"branch": branch})
    without = [gpu for gpu in gpus if not drives([gpu], wished)]
    if not without:
        return None
    fitting = {
        driver.branch
        for driver in problem.candidates["driver"]
        if drives(gpus, driver) and (platform is None or driver.platform == platform.id)
    }
    told = [
        f"{gpu.driver_last} is the last for {gpu.generation}"
        if gpu.driver_last and Version(gpu.driver_last) < Version(branch)
        else f"{gpu.driver_first} is the first for {gpu.generation}"
        for gpu in without
    ]
    return UnsatisfiableError(
        f"driver branch {branch} does not drive {and_list(unique(g.name for g in without))}",
        got=f'driver_branch: "{asked}"; {"; ".join(unique(told))}',
        expected=" or ".join(f'"{one}"' for one in nearest(Version(branch), fitting))
        or "another GPU: no branch known here drives all of this host's",
        hint="`provision catalog --gpu` shows what runs with a GPU",
    )


def _instead(solver: Solver, problem: Problem, wish: Wish, demands: Sequence[Demand]) -> list[str]:
    """The nearest stacks: of the demands as few as possible are given up, the host's last.

    Nobody changes a GPU for a wish, so they stay.
    """
    given = [one for one in demands if one.name != "gpus"]
    given.sort(key=lambda one: one.name == "platform")
    for size in range(1, len(given) + 1):
        found = []
        for dropped in itertools.combinations(given, size):
            rest = [one for one in demands if one not in dropped]
            near = Problem(
                problem.candidates,
                problem.rules,
                {
                    **problem.order,
                    **{d.variable: _near(d, wish, problem) for d in dropped},
                },
                problem.answers,
            )
            # What can be installed now comes before what is only known.
            solution = near.solve([*rest, *INSTALLED]) or near.solve(rest)
            if solution is not None:
                found.append(_paste(solver, wish, dropped, solution))
        if found:
            return unique(found)[:3]
    return []


def _near(demand: Demand, wish: Wish, problem: Problem) -> Any:
    own = problem.order.get(demand.variable)
    asked = wish.cudnn.version if demand.name == "cudnn" and wish.cudnn else ""
    asked = asked or str(getattr(wish, demand.name, "") or "")
    if not asked or not re.fullmatch(r"[\d.]+", asked):
        return own or no_preference
    wanted = Version(asked)

    def order(value: Any, chosen: Mapping[str, Any]) -> Any:
        text = getattr(value, "branch", None) or getattr(value, "version", None) or value
        near = distance(wanted, Version(text)) if text else 1 << 60
        return (near, own(value, chosen)) if own is not None else (near,)

    return order


def _paste(
    solver: Solver, wish: Wish, dropped: Sequence[Demand], solution: Mapping[str, Any]
) -> str:
    """The wish with other words in place of those given up, as it stands in an inventory."""
    words = dict(plain(wish.literal))
    instead = {
        "tensorflow": solution["tensorflow"].row.release,
        "python": solution["python"],
        "cuda": solution["cuda"].release,
        "cuda_source": solution["cuda"].origin,
        "cudnn": solution["cudnn"].version,
        "driver_branch": solution["driver"].branch,
        "driver_source": solution["driver"].origin,
        "gcc": solution["gcc"],
        "container_toolkit": getattr(solution["container_toolkit"], "version", ""),
    }
    for one in dropped:
        if one.name in instead:
            words[one.name] = instead[one.name]
    words = {key: value for key, value in words.items() if value}
    missing = solver.stack(solution, wish).missing
    known = " (known, and not to be installed by this version)" if missing else ""
    return f"gpu_stack: {flow(words)} on {solution['platform'].title}{known}"


def installable(solver: Solver, wish: Wish) -> list[str]:
    """TensorFlow releases near the wished one that some platform can have installed."""
    near = [row.release for row in solver.offered]
    wanted = wish.tensorflow or DEFAULT_TENSORFLOW
    return [f'tensorflow: "{v}"' for v in nearest(Version(wanted), near)]


def _headline(clash: Sequence[Demand]) -> str:
    """ "tensorflow: "2.9" can't be had on Debian 12 (bookworm) with Tesla K80 (Kepler)"."""
    wishes = [one.text for one in clash if one.name not in ("platform", "gpus")]
    on = "".join(f" on {one.text}" for one in clash if one.name == "platform")
    with_ = "".join(f" with {one.text}" for one in clash if one.name == "gpus")
    what = f"{' and '.join(wishes)} can't be had" if wishes else "no stack is known"
    if len(wishes) > 1:
        what += " together"
    return f"{what}{on}{with_}"


def _hint(clash: Sequence[Demand], rules: Sequence[Fact]) -> str:
    if len(clash) == 1 and "code-gpus" in [rule.name for rule in rules]:
        return "no wheel of TensorFlow's runs on it; NVIDIA's own container of TensorFlow may"
    if len(clash) == 1:
        return "this alone can't be had, whatever else is wished"
    return "without any one of these the rest can be had; `provision catalog` shows what runs where"
