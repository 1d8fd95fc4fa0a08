"""The parts of the page as the template reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from provision.report.html.words import BAD, shortened
from provision.report.reading import Problem, duration

# A longer list of changes that several hosts have in common is shown once.
SHARED_CHANGES = 6


@dataclass(frozen=True)
class Cell:
    """One version in the table: what is there, and what was promised where that is another."""

    found: str
    wanted: str = ""
    state: str = "same"  # same, differs, unknown


@dataclass(frozen=True)
class Bar:
    """A duration, and its share of the longest."""

    name: str
    seconds: float
    share: float
    changed: bool = False

    @property
    def said(self) -> str:
        return duration(self.seconds)


@dataclass
class HostView:
    """One host as the page shows it."""

    name: str
    anchor: str
    status: str
    said: str
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
    stack: str
    bars: list[Bar] = field(default_factory=list)
    shared: str = ""

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
    """Hosts of which the same is wrong."""

    status: str
    hosts: list[HostView]
    example: bool
    first: HostView

    @property
    def differences(self) -> Groups:
        return grouped(self.first.differences)

    @property
    def few(self) -> bool:
        """Is it little enough to be told in the overview?"""
        return len(self.first.differences) <= SHARED_CHANGES

    @property
    def brief(self) -> list[tuple[str, list[str]]]:
        """(cure, what is wrong), a cure that follows from several things said once."""
        found: list[tuple[str, list[str]]] = []
        for one in self.first.problems:
            message = shortened(one.message or one.title)
            if one.task:
                message = f"{one.title}:\n{message}"
            if found and found[-1][0] == one.cure:
                found[-1][1].append(message)
            else:
                found.append((one.cure, [message]))
        return found


@dataclass(frozen=True)
class Stack:
    """Hosts that were promised the same."""

    id: str
    wanted: list[str]
    hosts: list[HostView]


@dataclass(frozen=True)
class Shared:
    """A list of changes that several hosts have in common."""

    anchor: str
    title: str
    hosts: list[HostView]
    changes: Groups
    count: int


@dataclass(frozen=True)
class Time:
    """How long a component took, over the hosts where it ran; shares are of the longest of all."""

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
    """Changes by component, and in it by reason: (component, how many, [(reason, changes)])."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for one in changes:
        found.setdefault(one["component"], {}).setdefault(one["reason"], []).append(one)
    return [
        (name, sum(map(len, reasons.values())), list(reasons.items()))
        for name, reasons in found.items()
    ]
