"""Why there is no stack: the smallest clash, the facts behind it, and what would work."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from provision.catalog.rows import PlatformRow
from provision.errors import UnsatisfiableError
from provision.models import Gpu, Wish, plain
from provision.resolve.beside import narrowed
from provision.resolve.demands import demands as demands_of
from provision.resolve.own import OWN
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
    """The rules behind the smallest clash; [] where there is a stack."""
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
    """The error with the smallest set of wishes and facts that clash, and what would work."""
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
    """The rules that make it a clash, preferring those about the demanded variables."""
    demanded = {demand.variable for demand in clash}
    rules = sorted(problem.rules, key=lambda rule: len({*rule.variables} - demanded))
    clashing = Problem(problem.candidates, rules, {}, problem.answers).reasons(clash)
    return [rule for rule in clashing if isinstance(rule, Fact)]


def _unknown(
    solver: Solver, problem: Problem, wish: Wish, clash: Sequence[Demand]
) -> UnsatisfiableError | None:
    """The error for a version that the catalog does not have, with the nearest; None for others."""
    if len(clash) != 1 or left_of(problem, clash, clash[0].variable):
        return None
    versions: dict[str, list[str]] = {
        "tensorflow": [v for r in solver.offered for v in (r.release, *r.patches)],
        "python": solver.candidates.pythons,
        "cuda": [v for c in solver.candidates.cudas for v in (c.release, c.version)],
        "cudnn": [c.version for c in solver.candidates.cudnns],
        "driver_branch": [
            d.version if "." in (wish.driver_branch or "") else d.branch
            for d in problem.candidates["driver"]
        ],
        "gcc": [g for g in solver.candidates.gccs if g],
        **{
            word: [value.version for value in values if value is not None]
            for word, values in solver.candidates.own.items()
        },
    }
    word = clash[0].name
    if word == "driver_branch" and solver.candidates.is_branch(str(wish.driver_branch)):
        near = nearest(Version(str(wish.driver_branch)), versions[word])
        return UnsatisfiableError(
            f"no platform has packages of driver branch {wish.driver_branch}",
            got=clash[0].text,
            expected=" or ".join(f'"{v}"' for v in near),
            hint="an installer of NVIDIA's is wished for by its exact version, with "
            "driver_source: runfile",
        )
    if word not in versions or not versions[word] or _wished(wish, word) == "":
        return None
    titles = {
        "tensorflow": "TensorFlow", "python": "Python", "cuda": "CUDA", "cudnn": "cuDNN",
        "driver_branch": "driver branch", "gcc": "gcc",
        **{own.WORD: own.TITLE for own in OWN.values()},
    }  # fmt: skip
    wished = wish.cudnn.version if word == "cudnn" and wish.cudnn else _wished(wish, word)
    near = nearest(parse_version(wished, word), versions[word])
    own = ', or {version: "...", cuda: "...", sha256: "<64 hex digits>"} of your own archive'
    return UnsatisfiableError(
        f"no {titles[word]} {wished} in the catalog",
        got=clash[0].text,
        expected=" or ".join(f'"{v}"' for v in near) + (own if word == "cudnn" else ""),
        hint="`provision catalog` shows what there is",
    )


def _wished(wish: Wish, word: str) -> Any:
    """The value of a wished word; of a component with a file of its own, or a field."""
    return wish.own[word] if word in wish.own else getattr(wish, word)


def _nvidias_driver_instead(
    solver: Solver, wish: Wish, platform: PlatformRow | None, gpus: Sequence[Gpu]
) -> list[str]:
    """The same wish with NVIDIA's own driver, where that is enough on this host; else []."""
    if platform is None or wish.driver_source is not None:
        return []
    for source in ("network", "runfile"):
        with_source = narrowed(wish, driver_source=source)
        stack = solver.find(with_source, platform, gpus)
        if stack is not None and not stack.missing:
            return [f"{literal(with_source)} on {platform.title}"]
    return []


def _branch_for_gpus(
    solver: Solver,
    problem: Problem,
    wish: Wish,
    platform: PlatformRow | None,
    clash: Sequence[Demand],
) -> UnsatisfiableError | None:
    """The error for a branch of NVIDIA's that does not drive the host's GPUs; None for others."""
    wished_version = str(wish.driver_branch)
    branch = wished_version.partition(".")[0]
    names = {demand.name for demand in clash}
    if "driver_branch" not in names or names - {"driver_branch", "gpus", "platform"}:
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
    limits = [
        f"{gpu.driver_last} is the last for {gpu.generation}"
        if gpu.driver_last and Version(gpu.driver_last) < Version(branch)
        else f"{gpu.driver_first} is the first for {gpu.generation}"
        for gpu in without
    ]
    return UnsatisfiableError(
        f"driver branch {branch} does not drive {and_list(unique(g.name for g in without))}",
        got=f'driver_branch: "{wished_version}"; {"; ".join(unique(limits))}',
        expected=" or ".join(f'"{near}"' for near in nearest(Version(branch), fitting))
        or "another GPU: no branch known here drives all of this host's",
        hint="`provision catalog --gpu` shows what runs with a GPU",
    )


def _instead(solver: Solver, problem: Problem, wish: Wish, demands: Sequence[Demand]) -> list[str]:
    """The nearest wishes that work: as few demands as possible are dropped, the platform last.

    Nobody changes a GPU for a wish, so the GPUs stay.
    """
    droppable = [demand for demand in demands if demand.name != "gpus"]
    droppable.sort(key=lambda demand: demand.name == "platform")
    for size in range(1, len(droppable) + 1):
        wishes = []
        for dropped in itertools.combinations(droppable, size):
            kept = [demand for demand in demands if demand not in dropped]
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
            solution = near.solve([*kept, *INSTALLED]) or near.solve(kept)
            if solution is not None:
                wishes.append(_paste(solver, wish, dropped, solution))
        if wishes:
            return unique(wishes)[:3]
    return []


def _near(demand: Demand, wish: Wish, problem: Problem) -> Any:
    """The order for a dropped demand's variable: nearest to the wished version first."""
    own = problem.order.get(demand.variable)
    text = wish.cudnn.version if demand.name == "cudnn" and wish.cudnn else ""
    text = text or str(wish.own.get(demand.name) or getattr(wish, demand.name, "") or "")
    if not text or not re.fullmatch(r"[\d.]+", text):
        return own or no_preference
    wished = Version(text)

    def order(value: Any, chosen: Mapping[str, Any]) -> Any:
        version = getattr(value, "branch", None) or getattr(value, "version", None) or value
        near = distance(wished, Version(version)) if version else 1 << 60
        return (near, own(value, chosen)) if own is not None else (near,)

    return order


def _paste(
    solver: Solver, wish: Wish, dropped: Sequence[Demand], solution: Mapping[str, Any]
) -> str:
    """The wish with the solution's values for the dropped demands, as YAML for an inventory."""
    wished = dict(plain(wish.literal))
    instead = {
        "tensorflow": solution["tensorflow"].row.release,
        "python": solution["python"],
        "cuda": solution["cuda"].release,
        "cuda_source": solution["cuda"].origin,
        "cudnn": solution["cudnn"].version,
        "driver_branch": solution["driver"].branch,
        "driver_source": solution["driver"].origin,
        "gcc": solution["gcc"],
        **{own.WORD: getattr(solution[own.WORD], "version", "") for own in OWN.values()},
    }
    for demand in dropped:
        if demand.name in instead:
            wished[demand.name] = instead[demand.name]
    wished = {key: value for key, value in wished.items() if value}
    missing = solver.stack(solution, wish).missing
    note = " (known, and not to be installed by this version)" if missing else ""
    return f"gpu_stack: {flow(wished)} on {solution['platform'].title}{note}"


def installable(solver: Solver, wish: Wish) -> list[str]:
    """TensorFlow releases near the wished one that can be installed on some platform."""
    releases = [row.release for row in solver.offered]
    wished = wish.tensorflow or DEFAULT_TENSORFLOW
    return [f'tensorflow: "{v}"' for v in nearest(Version(wished), releases)]


def _headline(clash: Sequence[Demand]) -> str:
    """ "tensorflow: "2.9" can't be had on Debian 12 (bookworm) with Tesla K80 (Kepler)"."""
    wishes = [d.text for d in clash if d.name not in ("platform", "gpus")]
    on = "".join(f" on {d.text}" for d in clash if d.name == "platform")
    with_ = "".join(f" with {d.text}" for d in clash if d.name == "gpus")
    headline = f"{' and '.join(wishes)} can't be had" if wishes else "no stack is known"
    if len(wishes) > 1:
        headline += " together"
    return f"{headline}{on}{with_}"


def _hint(clash: Sequence[Demand], rules: Sequence[Fact]) -> str:
    if len(clash) == 1 and "code-gpus" in [rule.name for rule in rules]:
        return "no wheel of TensorFlow's runs on it; NVIDIA's own container of TensorFlow may"
    if len(clash) == 1:
        return "this alone can't be had, whatever else is wished"
    return "without any one of these the rest can be had; `provision catalog` shows what runs where"
