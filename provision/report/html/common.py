"""What hosts have in common: trouble, stacks, lists of changes, durations."""

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
    """The hosts that are not as they should be, those with the same trouble together.

    One cause is mostly many hosts'.
    """
    groups: dict[str, list[HostView]] = {}
    differ: set[str] = set()
    known: dict[str, str] = {}
    for view in hosts:
        if view.status not in (*BAD, "drift"):
            continue
        if view.status == "drift":
            same = said = json.dumps(view.differences)
        else:
            said = json.dumps([view.status, *([p.title, p.message, p.cure] for p in view.problems)])
            # The host's own name and address make no other cause.
            name = re.escape(json.dumps(view.name)[1:-1])
            same = re.sub(rf"(?<![\w.-]){name}(?![\w.-])", "HOST", said)
            same = ADDRESS.sub("ADDRESS", same)
        key = known.get(said) or known.get(same) or said
        if key in groups and key != said:
            differ.add(key)
        known[said] = known[same] = key
        groups.setdefault(key, []).append(view)
    return [
        Trouble(found[0].status, found, key in differ, found[0]) for key, found in groups.items()
    ]


def stacks(hosts: list[HostView], report: Report, columns: list[str]) -> list[Stack]:
    """The table's groups; the one with the worst host first."""
    promised = {
        clean(host.get("stack")): host.get("wanted") or {} for host in report["hosts"].values()
    }
    # Hosts without a stack were never looked at: bad ones, all of them.
    groups: dict[str, list[HostView]] = {}
    for view in sorted(hosts, key=lambda view: bool(view.stack)):
        groups.setdefault(view.stack, []).append(view)
    return [
        Stack(
            stack,
            [version(promised[stack].get(key)) or UNKNOWN for key in columns],
            found,
        )
        for stack, found in groups.items()
    ]


def shared_changes(hosts: list[HostView]) -> list[Shared]:
    """Long lists of changes that several hosts have in common, each once; the hosts refer to it."""
    groups: dict[str, list[HostView]] = {}
    for view in hosts:
        if len(view.changes) > SHARED_CHANGES:
            groups.setdefault(json.dumps([view.changes_title, view.changes]), []).append(view)
    found: list[Shared] = []
    for views in groups.values():
        if len(views) < 2:
            continue
        anchor = f"changes-{len(found) + 1}"
        for view in views:
            view.shared = anchor
        first = views[0]
        found.append(
            Shared(anchor, first.changes_title, views, first.by_component, len(first.changes))
        )
    return found


def times(hosts: list[HostView]) -> list[Time]:
    """Per component: on how many hosts it ran, the median, and the slowest host."""
    ran: dict[str, list[tuple[float, HostView]]] = {}
    for view in hosts:
        for bar in view.bars:
            ran.setdefault(bar.name, []).append((bar.seconds, view))
    rows = []
    for name, found in ran.items():
        slowest, where = max(found, key=lambda pair: pair[0])
        median = statistics.median(seconds for seconds, _ in found)
        rows.append(Time(name, len(found), median, slowest, where))
    longest = max((row.slowest for row in rows), default=0.0) or 1.0
    return [replace(row, longest=longest) for row in rows]
