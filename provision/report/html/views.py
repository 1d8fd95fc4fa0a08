"""The parts of the page as the template reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from provision.report.html.words import BAD, UNSEEN, shortened
from provision.report.reading import Problem

# A longer list of changes that several hosts share is shown once.
SHARED_CHANGES = 6


@dataclass(frozen=True)
class Cell:
    """One version in the table, and the expected one where it differs.

    `few`: how many hosts have it, where these are rare.
    """

    version: str
    expected: str = ""
    state: str = "same"  # same, differs, unknown
    few: str = ""


@dataclass(frozen=True)
class Bar:
    """A duration, and its share of the longest."""

    name: str
    seconds: float
    share: float
    changed: bool = False


@dataclass(frozen=True)
class Strip:
    """A host's statuses, the oldest run first: runs of equal ones, as (status, its marks)."""

    parts: list[tuple[str, str]]

    @property
    def words(self) -> str:
        """ "2 proven, then 1 failed"."""
        return ", then ".join(f"{len(marks)} {status or UNSEEN}" for status, marks in self.parts)


@dataclass
class HostView:
    """One host as the page shows it; `key` is its name as the report has it."""

    key: str
    name: str
    anchor: str
    status: str
    summary: str
    simulated: bool
    cells: list[Cell]
    gpu_count: Cell
    counts: dict[str, int]
    seconds: float
    facts: list[tuple[str, str]]
    problems: list[Problem]
    changes: list[dict[str, Any]]
    changes_title: str
    left: list[dict[str, Any]]
    not_selected: list[str]
    warnings: list[Problem]
    reboot: str
    checks: dict[str, list[dict[str, str]]]
    gpus: list[dict[str, str]]
    gpu_models: str
    stack: str
    groups: list[str]
    platform: str
    kernel: str
    last_proven: str
    bars: list[Bar] = field(default_factory=list)
    shared: str = ""
    # The list of checks in common, and how many of each result are in it.
    common: str = ""
    common_counts: dict[str, int] = field(default_factory=dict)
    # By which filters name its platform and groups.
    keys: str = ""
    past: Strip | None = None

    @property
    def plain(self) -> bool:
        """Has the name one direction, so that it can't reorder its neighbours?"""
        return self.name.isascii()

    @property
    def open(self) -> bool:
        return self.status in BAD

    @property
    def differences(self) -> list[dict[str, Any]]:
        return self.left or self.changes

    @property
    def by_component(self) -> Groups:
        return grouped(self.changes)


@dataclass(frozen=True)
class Trouble:
    """Hosts with the same trouble. `example`: messages differ, and those of `first` are shown."""

    status: str
    hosts: list[HostView]
    example: bool
    first: HostView

    @property
    def differences(self) -> Groups:
        return grouped(self.first.differences)

    @property
    def is_short(self) -> bool:
        """Is the list of differences short enough for the overview?"""
        return len(self.first.differences) <= SHARED_CHANGES

    @property
    def by_cure(self) -> list[tuple[str, list[str]]]:
        """Deduplicated remedies: (cure, messages of the consecutive problems that it cures)."""
        groups: list[tuple[str, list[str]]] = []
        for problem in self.first.problems:
            message = shortened(problem.message or problem.title)
            if problem.task:
                message = f"{problem.title}:\n{message}"
            if groups and groups[-1][0] == problem.cure:
                groups[-1][1].append(message)
            else:
                groups.append((problem.cure, [message]))
        return groups


@dataclass(frozen=True)
class Stack:
    """Hosts with the same stack, and its versions by column."""

    id: str
    versions: list[str]
    hosts: list[HostView]


@dataclass(frozen=True)
class Shared:
    """A list of changes that several hosts share."""

    anchor: str
    title: str
    hosts: list[HostView]
    changes: Groups
    count: int


@dataclass(frozen=True)
class Time:
    """A component's seconds over the hosts where it ran; `longest` is the maximum of all rows."""

    name: str
    hosts: int
    median: float
    slowest: float
    where: HostView
    longest: float = 1.0

    @property
    def median_share(self) -> float:
        return 100 * self.median / self.longest

    @property
    def slowest_share(self) -> float:
        return 100 * self.slowest / self.longest


Groups = list[tuple[str, int, list[tuple[str, list[dict[str, Any]]]]]]


def grouped(changes: Iterable[dict[str, Any]]) -> Groups:
    """Changes by component and reason: [(component, count, [(reason, changes)])]."""
    components: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for change in changes:
        components.setdefault(change["component"], {}).setdefault(change["reason"], []).append(
            change
        )
    return [
        (name, sum(map(len, reasons.values())), list(reasons.items()))
        for name, reasons in components.items()
    ]
