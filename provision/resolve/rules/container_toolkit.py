"""Which version of NVIDIA's container toolkit a platform can have."""

from __future__ import annotations

from collections.abc import Sequence

from provision.catalog.rows import PlatformRow
from provision.resolve.rules.clash import Fact
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import ContainerToolkit
from provision.resolve.words import and_list, unique


def _toolkit_of_platform(platform: PlatformRow, toolkit: ContainerToolkit | None) -> bool:
    """NVIDIA's repository serves every Debian-like distribution, by architecture."""
    return toolkit is None or toolkit.row.architecture == platform.architecture


def _tell_toolkit_platform(problem: Problem, _clash: Sequence[Demand]) -> str:
    toolkits = [t for t in problem.candidates["container_toolkit"] if t is not None]
    architectures = unique(t.row.architecture for t in toolkits)
    return f"versions of NVIDIA's container toolkit are known for {and_list(architectures)}"


PLATFORM = Fact(
    "toolkit-platform",
    ("platform", "container_toolkit"),
    _toolkit_of_platform,
    _tell_toolkit_platform,
)
