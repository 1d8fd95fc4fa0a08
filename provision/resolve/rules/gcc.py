"""Which gcc a platform has, and nvcc takes."""

from __future__ import annotations

from collections.abc import Sequence

from provision.catalog.rows import PlatformRow
from provision.resolve.rules.clash import Fact, left_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import Cuda
from provision.resolve.words import and_list, unique


def _gcc_of_platform(platform: PlatformRow, gcc: str) -> bool:
    return gcc == "" or gcc in platform.gccs


def _tell_gcc_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    return "; ".join(
        f"{p.title} has gcc {and_list(p.gccs)}" for p in left_of(problem, clash, "platform")
    )


def _gcc_of_cuda(cuda: Cuda, gcc: str) -> bool:
    """nvcc refuses a newer host compiler (host_config.h)."""
    return gcc == "" or cuda.facts is None or int(gcc) <= int(cuda.facts.gcc_maximum)


def _tell_gcc_cuda(problem: Problem, clash: Sequence[Demand]) -> str:
    limits = unique(
        (c.release, c.facts.gcc_maximum) for c in left_of(problem, clash, "cuda") if c.facts
    )
    return "; ".join(
        f"nvcc of CUDA {release} takes gcc up to {maximum}" for release, maximum in limits[:4]
    )


PLATFORM = Fact("gcc-platform", ("platform", "gcc"), _gcc_of_platform, _tell_gcc_platform)
CUDA = Fact("gcc-cuda", ("cuda", "gcc"), _gcc_of_cuda, _tell_gcc_cuda)
