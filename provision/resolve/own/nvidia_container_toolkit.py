"""Which version of NVIDIA's container toolkit is chosen, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from provision.catalog import Catalog
from provision.catalog.own.nvidia_container_toolkit import PART, ContainerToolkitRow
from provision.catalog.rows import PlatformRow
from provision.models import Wish, plain
from provision.resolve.rules.clash import Fact
from provision.resolve.search import Demand, Problem
from provision.resolve.words import and_list, is_of, parse_version, unique

WORD = "container_toolkit"
TITLE = "container toolkit"


@dataclass(frozen=True)
class ContainerToolkit:
    """A version of NVIDIA's container toolkit, and its repository."""

    version: str
    row: ContainerToolkitRow = field(compare=False)

    @property
    def mark(self) -> str:
        """Its part of the stack's id."""
        return f"-toolkit{self.version}"


def candidates(catalog: Catalog) -> list[ContainerToolkit | None]:
    """The versions, the newest first; None comes last."""
    toolkits = [
        ContainerToolkit(version, row) for row in catalog.own[PART] for version in row.versions
    ]
    return [*sorted(toolkits, key=lambda t: Version(t.version), reverse=True), None]


def demands(wish: Wish) -> Iterator[Demand]:
    """The wished version, or any."""
    text = wish.own.get(WORD)
    if text is None:
        return
    version = text and parse_version(text, "container_toolkit")
    yield Demand(
        "container_toolkit", "container_toolkit",
        lambda t: t is not None and (not version or is_of(version, t.version)),
        f"container_toolkit: {json.dumps(plain(wish.literal.get('container_toolkit')))}",
    )  # fmt: skip


def reason(toolkit: ContainerToolkit, wish: Wish) -> str:
    """Why this version was chosen."""
    wished = wish.own.get(WORD)
    why = f"{toolkit.version} is the newest known"
    if wished == toolkit.version:
        why = f"{toolkit.version} was wished"
    elif wished:
        why = f"{toolkit.version} is the newest known of {wished}"
    return f"{why}; NVIDIA's repository is one for all platforms"


def _toolkit_of_platform(platform: PlatformRow, toolkit: ContainerToolkit | None) -> bool:
    """NVIDIA's repository serves every Debian-like distribution, by architecture."""
    return toolkit is None or toolkit.row.architecture == platform.architecture


def _tell_toolkit_platform(problem: Problem, _clash: Sequence[Demand]) -> str:
    toolkits = [t for t in problem.candidates["container_toolkit"] if t is not None]
    architectures = unique(t.row.architecture for t in toolkits)
    return f"versions of NVIDIA's container toolkit are known for {and_list(architectures)}"


RULES = (
    Fact(
        "toolkit-platform",
        ("platform", "container_toolkit"),
        _toolkit_of_platform,
        _tell_toolkit_platform,
    ),
)
