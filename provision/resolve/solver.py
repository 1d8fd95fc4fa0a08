"""Finds the best stack for a wish: the catalog's candidates under the rules."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from provision.catalog import Catalog
from provision.catalog.rows import PlatformRow, TensorflowRow
from provision.models import Gpu, Wish, plain
from provision.resolve.candidates import Candidates
from provision.resolve.demands import demands
from provision.resolve.own import OWN
from provision.resolve.preferences import (
    DEFAULT_TENSORFLOW,
    cuda_order,
    cudnn_order,
    gcc_order,
    no_preference,
    python_order,
)
from provision.resolve.reasons import reasons, warnings
from provision.resolve.rules import RULES
from provision.resolve.search import Problem
from provision.resolve.stack import Cudnn, Stack, Tensorflow, sdists, wheel_versions
from provision.resolve.words import distance, parse_version


class Solver:
    """Finds stacks in a catalog, and caches them; one instance serves every kind of host."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.candidates = Candidates(catalog)
        self._stacks: dict[Any, Stack | None] = {}
        self._answers: dict[Any, Any] = {}

    def find(
        self, wish: Wish, platform: PlatformRow | None = None, gpus: Sequence[Gpu] = ()
    ) -> Stack | None:
        """The best stack for a wish, platform and GPUs, or None; cached."""
        key = (json.dumps(plain(wish.literal), sort_keys=True), platform and platform.id, *gpus)
        if key not in self._stacks:
            problem = self.problem(wish, gpus)
            solution = problem.solve(demands(wish, platform, gpus))
            self._stacks[key] = None if solution is None else self.stack(solution, wish)
        return self._stacks[key]

    def problem(self, wish: Wish, gpus: Sequence[Gpu]) -> Problem:
        """The search for one wish and one host's GPUs."""
        candidates = self.candidates
        own = candidates.own_cudnn(wish)
        wished = parse_version(wish.tensorflow, "tensorflow") if wish.tensorflow else None

        def tensorflow_order(value: Tensorflow, _chosen: Mapping[str, Any]) -> Any:
            release = Version(value.row.release)
            if wished is None:
                return value.row.release != DEFAULT_TENSORFLOW
            return (distance(wished, release), distance(wished, Version(value.version)))

        return Problem(
            {
                "platform": list(self.catalog.platforms),
                "gpus": [(), tuple(gpus)] if gpus else [()],
                "tensorflow": candidates.tensorflows,
                "python": candidates.pythons,
                "cuda": candidates.cudas,
                "cudnn": [*([own] if own else []), *candidates.cudnns],
                "driver": candidates.drivers(wish),
                "gcc": candidates.gccs,
                **{
                    word: values if word in wish.own else [None]
                    for word, values in candidates.own.items()
                },
            },
            (*RULES, *(rule for own in OWN.values() for rule in own.RULES)),
            {
                "platform": lambda p, _: p.id not in self._own_platforms,
                # An alternative for a refusal stays near the wish.
                "tensorflow": tensorflow_order if wished is None else no_preference,
                "python": python_order,
                "cuda": cuda_order,
                "cudnn": cudnn_order,
                "gcc": gcc_order,
            },
            self._answers,
        )

    @functools.cached_property
    def _own_platforms(self) -> set[str]:
        """The platforms whose own packages include a CUDA."""
        return {row.platform for row in self.catalog.cuda}

    @functools.cached_property
    def offered(self) -> list[TensorflowRow]:
        """The TensorFlow releases that can be installed on some platform."""
        rows = []
        for row in self.catalog.tensorflow:
            wish = Wish(tensorflow=row.release, literal={"tensorflow": row.release})
            stacks = (self.find(wish, platform) for platform in self.catalog.platforms)
            if any(stack is not None and not stack.missing for stack in stacks):
                rows.append(row)
        return rows

    def stack(self, solution: Mapping[str, Any], wish: Wish) -> Stack:
        """The stack of a solution (variable of the search -> its value)."""
        platform, tensorflow = solution["platform"], solution["tensorflow"]
        cuda, cudnn, driver = solution["cuda"], solution["cudnn"], solution["driver"]
        row = tensorflow.row
        constraints = list(row.constraints)
        if cuda.origin == "wheels":
            constraints += [f"{name}=={v}" for name, v in wheel_versions(row).items()]
        if cudnn.origin == "own" and not cudnn.cuda:
            cudnn = Cudnn(cudnn.version, cuda.release, cudnn.sha256, cudnn.soname, origin="own")
        cudnn = Cudnn(
            cudnn.version, cudnn.cuda, cudnn.sha256, cudnn.soname, row.cudnn_minimum, cudnn.origin
        )
        return Stack(
            platform=platform,
            driver=driver,
            cuda=cuda,
            cudnn=cudnn,
            python=solution["python"],
            tensorflow=tensorflow.version,
            gcc=solution["gcc"],
            constraints=tuple(constraints),
            sdists=sdists(row, solution["python"]),
            reasons=tuple(reasons(solution, wish)),
            warnings=tuple(warnings(solution)),
            row=row,
            own={
                own.WORD: solution[own.WORD]
                for own in OWN.values()
                if solution[own.WORD] is not None
            },
            packages=wish.packages,
        )


@functools.lru_cache(maxsize=8)
def solver_of(catalog: Catalog) -> Solver:
    """The solver of a catalog, cached with the stacks that it has found."""
    return Solver(catalog)
