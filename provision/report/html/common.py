"""Groups hosts by trouble, stack, changes and components' durations."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace

from provision.report import Report
from provision.report.html.views import SHARED_CHANGES, HostView, Shared, Stack, Time, Trouble
from provision.report.html.words import BAD, UNKNOWN, version
from provision.report.reading import clean

ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


def trouble(hosts: list[HostView]) -> list[Trouble]:
    """The hosts that are bad or drift, grouped by trouble: one cause mostly has many hosts."""
    groups: dict[str, list[HostView]] = {}
    differ: set[str] = set()
    group_keys: dict[str, str] = {}
    for view in hosts:
        if view.status not in (*BAD, "drift"):
            continue
        if view.status == "drift":
            masked = exact = json.dumps(view.differences)
        else:
            exact = json.dumps(
                [view.status, *([p.title, p.message, p.cure] for p in view.problems)]
            )
            # Messages that differ only in the host's own name or address have one cause.
            name = re.escape(json.dumps(view.name)[1:-1])
            masked = re.sub(rf"(?<![\w.-]){name}(?![\w.-])", "HOST", exact)
            masked = ADDRESS.sub("ADDRESS", masked)
        key = group_keys.get(exact) or group_keys.get(masked) or exact
        if key in groups and key != exact:
            differ.add(key)
        group_keys[exact] = group_keys[masked] = key
        groups.setdefault(key, []).append(view)
    return [
        Trouble(views[0].status, views, key in differ, views[0]) for key, views in groups.items()
    ]


def stacks(hosts: list[HostView], report: Report, columns: list[str]) -> list[Stack]:
    """The hosts by stack, the group with the worst host first."""
    promised = {
        clean(host.get("stack")): host.get("wanted") or {} for host in report["hosts"].values()
    }
    # Hosts without a stack could not be looked at, so all of them are bad.
    groups: dict[str, list[HostView]] = {}
    for view in sorted(hosts, key=lambda view: bool(view.stack)):
        groups.setdefault(view.stack, []).append(view)
    return [
        Stack(
            stack,
            [version(promised[stack].get(key)) or UNKNOWN for key in columns],
            views,
        )
        for stack, views in groups.items()
    ]


def shared_changes(hosts: list[HostView]) -> list[Shared]:
    """Long lists of changes that several hosts share; sets their `shared` to its anchor."""
    groups: dict[str, list[HostView]] = {}
    for view in hosts:
        if len(view.changes) > SHARED_CHANGES:
            groups.setdefault(json.dumps([view.changes_title, view.changes]), []).append(view)
    shared: list[Shared] = []
    for views in groups.values():
        if len(views) < 2:
            continue
        anchor = f"changes-{len(shared) + 1}"
        for view in views:
            view.shared = anchor
        first = views[0]
        shared.append(
            Shared(anchor, first.changes_title, views, first.by_component, len(first.changes))
        )
    return shared


def times(hosts: list[HostView]) -> list[Time]:
    """For each component: on how many hosts it ran, the median time, and the slowest host."""
    ran: dict[str, list[tuple[float, HostView]]] = {}
    for view in hosts:
        for bar in view.bars:
            ran.setdefault(bar.name, []).append((bar.seconds, view))
    rows = []
    for name, durations in ran.items():
        slowest, where = max(durations, key=lambda pair: pair[0])
        median = statistics.median(seconds for seconds, _ in durations)
        rows.append(Time(name, len(durations), median, slowest, where))
    longest = max((row.slowest for row in rows), default=0.0) or 1.0
    return [replace(row, longest=longest) for row in rows]
