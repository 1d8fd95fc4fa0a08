"""Checks that say the same on most hosts of a stack, so that the page has them once.

On 500 hosts they are most of the page: 20 rows a host, of which two or three are its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from provision.report.html.views import HostView

# What did not fail: failures are shown in full, at each host.
RESULTS = ("not_applicable", "passed")
Row = tuple[str, str, str]


@dataclass(frozen=True)
class CommonChecks:
    """The same results of checks on several hosts, by result."""

    anchor: str
    stack: str
    hosts: list[HostView]
    checks: dict[str, list[dict[str, str]]]
    counts: dict[str, int]


def common_checks(hosts: list[HostView]) -> list[CommonChecks]:
    """The checks that hosts of a stack share; removes them from each host and sets its `common`."""
    by_stack: dict[str, list[HostView]] = {}
    for view in hosts:
        if view.counts:
            by_stack.setdefault(view.stack, []).append(view)
    common: list[CommonChecks] = []
    for stack, views in by_stack.items():
        frequent = _frequent(views)
        groups: dict[tuple[Row, ...], list[HostView]] = {}
        for view in views:
            same = tuple(row for row in _rows(view) if row in frequent)
            groups.setdefault(same, []).append(view)
        for same, having in groups.items():
            if len(having) > 1 and same:
                common.append(_taken_out(f"checks-{len(common) + 1}", stack, having, set(same)))
    return common


def _frequent(views: list[HostView]) -> set[Row]:
    """What at least half of these hosts say."""
    count = Counter(row for view in views for row in set(_rows(view)))
    return {row for row, number in count.items() if 2 * number >= len(views)}


def _rows(view: HostView) -> Iterable[Row]:
    for result in RESULTS:
        for check in view.checks[result]:
            yield _row(result, check)


def _row(result: str, check: dict[str, str]) -> Row:
    return result, check["title"], check["detail"]


def _taken_out(anchor: str, stack: str, views: list[HostView], same: set[Row]) -> CommonChecks:
    shared = {
        result: [check for check in views[0].checks[result] if _row(result, check) in same]
        for result in RESULTS
    }
    counts = {result: len(checks) for result, checks in shared.items()}
    for view in views:
        view.common, view.common_counts = anchor, counts
        for result in RESULTS:
            own = [check for check in view.checks[result] if _row(result, check) not in same]
            view.checks[result] = own
    return CommonChecks(anchor, stack, views, shared, counts)
