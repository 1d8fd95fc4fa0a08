"""How each host fared in earlier runs, beside this one.

One report says how a host is; whether it is ill since yesterday or for a month, or fails every
third night, only the runs before tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from provision.report import Report
from provision.report.html.views import HostView, Strip
from provision.report.html.words import BAD, MODES, UNSEEN
from provision.report.reading import WORST_FIRST, clean, moment
from provision.report.runs import Earlier

# One character for each status, which is coloured too; and one for a host that was not looked at.
MARKS = {
    "proven": "✓",
    "converged": "=",
    "drift": "≠",
    "failed": "✗",
    "blocked": "!",
    "unreachable": "?",
    "": "·",
}


@dataclass(frozen=True)
class RunRow:
    """One run in the table of runs."""

    name: str
    when: str
    mode: str
    note: str
    counts: list[tuple[str, int]]
    hosts: int


@dataclass(frozen=True)
class History:
    """The earlier runs and this one; `uneven`: hosts that were not good in all of them."""

    runs: list[RunRow]
    uneven: list[HostView]
    even: int
    worse: list[tuple[HostView, str]]
    better: list[tuple[HostView, str]]
    new: list[HostView]

    @property
    def marks(self) -> list[tuple[str, str]]:
        """(mark, what it means), for the legend."""
        strips = [view.past for view in self.uneven if view.past]
        present = {status for strip in strips for status, _ in strip.parts}
        return [(MARKS[s], s or UNSEEN) for s in (*WORST_FIRST, "") if s in present]


def history(hosts: list[HostView], report: Report, earlier: Sequence[Earlier]) -> History | None:
    """The history, or None without an earlier run; sets each host's `past`."""
    if not earlier:
        return None
    now = Earlier.of("this run", report)
    worse, better, new, uneven = [], [], [], []
    for view in hosts:
        before = [run.statuses.get(view.key, "") for run in earlier]
        all_of_it = [*before, view.status]
        view.past = Strip(
            [(status, MARKS[status] * len(list(same))) for status, same in groupby(all_of_it)]
        )
        last = next((status for status in reversed(before) if status), "")
        if not last:
            new.append(view)
        elif _rank(view.status) > _rank(last):
            worse.append((view, last))
        elif _rank(view.status) < _rank(last):
            better.append((view, last))
        if any(_rank(status) for status in all_of_it if status):
            uneven.append(view)
    rows = [_row(run) for run in reversed([*earlier, now])]
    return History(rows, uneven, len(hosts) - len(uneven), worse, better, new)


def _rank(status: str) -> int:
    """0 for good, 1 for drift, 2 for bad."""
    return 2 if status in BAD else int(status == "drift")


def _row(run: Earlier) -> RunRow:
    counts = Counter(run.statuses.values())
    mode, _means = MODES.get(run.mode, (clean(run.mode), ""))
    return RunRow(
        clean(run.name),
        moment(run.started),
        mode,
        run.note,
        [(status, counts[status]) for status in WORST_FIRST if counts[status]],
        sum(counts.values()),
    )
