"""Prints a report on a terminal: what every host has now, what is wrong, and its cure.

The table answers "is my lab good?" at a glance, the text below it "what do I do?". Colours only
repeat what words say. A simulated GPU is always named as one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from provision.report import Report, cures, failed_checks
from provision.report.reading import matches, userland_note

STYLES = {
    "proven": "bold green",
    "converged": "green",
    "drift": "yellow",
    "failed": "bold red",
    "blocked": "bold red",
    "unreachable": "bold red",
}
# In a narrower terminal the table has small gaps and short words.
WIDE = 110
# This many consecutive changes of one kind share a line.
MANY = 4


def outcome(report: Report, console: Console, *, reported: Collection[str] = ()) -> None:
    """Prints the outcome of an apply or a verify: the table, then everything that is not good.

    `reported`: hosts whose failure the live view above has shown in full.
    """
    if not report["hosts"]:
        console.print(Text("No host was looked at: does the pattern or --limit match any?"))
        return
    console.print(_versions(report, wide=console.width >= WIDE))
    _userland_notes(report, console)
    for name, host in report["hosts"].items():
        _problems(name, host, console, reported=name in reported)
        if host.get("not_selected"):
            names = ", ".join(dict.fromkeys(_component(item) for item in host["not_selected"]))
            why = "differs from its lock" if report.get("mode") == "verify" else "left out by tags"
            console.print(Text(f"{name}: {why}: {names}"))
    above = [name for name, host in report["hosts"].items() if name in reported and _is_bad(host)]
    if above:
        console.print(Text(f"\nFailures are shown above: {', '.join(above)}"), soft_wrap=True)
    if report.get("not_begun"):
        console.print(
            Text(f"\n{report['not_begun']['message']}"),
            soft_wrap=True,
        )
    console.print(Text(_sentence(report)))


def _userland_notes(report: Report, console: Console) -> None:
    """Prints a line for each host whose userland is not the distribution that it names."""
    for name, host in report["hosts"].items():
        if userland_note(host):
            console.print(Text(f"{name}: {userland_note(host)}"), soft_wrap=True)


def _is_bad(host: dict[str, Any]) -> bool:
    return host["status"] in ("failed", "blocked", "unreachable")


def plan(report: Report, console: Console) -> None:
    """Prints a plan: what would change on every host, and why."""
    if not report["hosts"]:
        console.print(Text("No host was looked at: does the pattern or --limit match any?"))
        return
    for names, host in _alike(report):
        status = host["status"]
        console.print(Text.assemble((names, "bold"), ": ", (status, STYLES[status])))
        for line in _changes(host.get("changes") or []):
            console.print(Text(f"  {line}"), soft_wrap=True)
        # Without lines in between, the status line above is the heading.
        _problems(names, host, console, headed=bool(host.get("changes") or host.get("warnings")))
    _userland_notes(report, console)
    console.print(Text(_sentence(report)))


def _alike(report: Report) -> list[tuple[str, dict[str, Any]]]:
    """Hosts with the same plan, together: a lab's hosts mostly drift alike."""
    groups: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for name, host in report["hosts"].items():
        parts = ("status", "simulated_gpu", "changes", "blockers", "failure", "warnings")
        key = json.dumps([host.get(part) for part in parts], sort_keys=True)
        groups.setdefault(key, ([], host))[0].append(name)
    return [
        (", ".join(names) + (" (simulated GPU)" if host.get("simulated_gpu") else ""), host)
        for names, host in groups.values()
    ]


def _changes(changes: list[dict[str, Any]]) -> Iterator[str]:
    """One line per change; MANY consecutive ones that differ only in item and version share one.

    A bare host lacks some forty packages; among as many lines an unusual one is easily missed.
    """

    def kind(change: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(change.get(key) for key in ("component", "from", "reason", "selected"))

    for _kind, group in itertools.groupby(changes, kind):
        alike = list(group)
        if len(alike) < MANY:
            yield from map(_change, alike)
            continue
        first = alike[0]
        names = ", ".join(f"{change.get('item')} {change.get('to')}" for change in alike)
        yield (
            f"{first.get('component')}, {len(alike)} times {first.get('reason')}"
            f"{_notes(alike)}: {names}"
        )


def _change(change: dict[str, Any]) -> str:
    """ "cuda libcublas11: none -> 11.4 (missing)"."""
    before = change.get("from")
    old = "none" if before is None else before
    text = f"{change.get('component')} {change.get('item')}: {old} -> {change.get('to')}"
    return (f"{text} ({change['reason']})" if change.get("reason") else text) + _notes([change])


def _notes(changes: list[dict[str, Any]]) -> str:
    """Notes on changes: whether they need a reboot or are left out by tags."""
    reboot = " (needs a reboot)" if any(change.get("reboot") for change in changes) else ""
    chosen = "" if changes[0].get("selected", True) else " (left out by tags)"
    return reboot + chosen


def _component(item: Any) -> str:
    return str(item.get("component")) if isinstance(item, dict) else str(item)


def _versions(report: Report, *, wide: bool) -> Table:
    gap = 2 if wide else 1
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    tensorflow = "TensorFlow" if wide else "TF"
    for title in ("host", "status", "driver", "CUDA", "cuDNN", tensorflow, "GPUs", "checks"):
        table.add_column(title, overflow="fold", no_wrap=title in ("host", "status"))
    for name, host in report["hosts"].items():
        versions, locked = host.get("found") or {}, host.get("wanted") or {}
        absent = host.get("absent") or ()
        table.add_row(
            Text(name),
            Text(host["status"], STYLES[host["status"]]),
            _version(
                versions.get("nvidia_driver"),
                locked.get("nvidia_driver"),
                absent="nvidia_driver" in absent,
            ),
            _version(versions.get("cuda"), locked.get("cuda"), absent="cuda" in absent),
            _version(versions.get("cudnn"), locked.get("cudnn"), absent="cudnn" in absent),
            _version(
                versions.get("tensorflow"), locked.get("tensorflow"), absent="tensorflow" in absent
            ),
            Text(_gpus(host)),
            Text(_counts(host) if wide else _counts(host).replace("not applicable", "n/a")),
        )
    return table


def _version(version: Any, locked: Any, *, absent: bool = False) -> Text:
    """A version; marked where the lock has another, or the component should be absent."""
    if absent:
        return Text("absent" if version is None else f"{version}, not wished", "dim")
    if version is None:
        return Text(f"none, not {locked}" if locked else "", "yellow" if locked else "")
    if matches(version, locked):
        return Text(str(version))
    return Text(f"{version}, not {locked}", "yellow")


def _gpus(host: dict[str, Any]) -> str:
    counts = host.get("found") or {}
    count = counts.get("tensorflow_gpus", counts.get("gpus"))
    if host["status"] == "unreachable":
        return ""
    if count is None:
        count = sum(1 for gpu in host.get("gpus") or [] if gpu.get("usable", True))
    return f"{count} simulated" if host.get("simulated_gpu") else str(count)


def _counts(host: dict[str, Any]) -> str:
    summary = host.get("checks_summary")
    if not summary:
        return f"last proven {_minute(host['last_proven'])}" if host.get("last_proven") else ""
    parts = [f"{summary.get('passed', 0)} passed"]
    if summary.get("failed"):
        parts.append(f"{summary['failed']} failed")
    if summary.get("not_applicable"):
        parts.append(f"{summary['not_applicable']} not applicable")
    return ", ".join(parts)


def _minute(moment: str) -> str:
    """ "2026-11-21 14:25 UTC" of the report's "2026-11-21T14:25:33.568Z"."""
    return f"{moment[:10]} {moment[11:16]} UTC"


def _problems(
    name: str,
    host: dict[str, Any],
    console: Console,
    *,
    headed: bool = True,
    reported: bool = False,
) -> None:
    """Prints the notes of a host, then its blockers, failed checks and failure with their cures.

    `reported`: the live view has shown the problems; only notes are printed.
    """
    lines: list[tuple[str, str]] = [
        (str(blocker.get("message")), str(blocker.get("hint") or ""))
        for blocker in host.get("blockers") or []
    ]
    failed = failed_checks(host)
    lines += [
        (f"{check['title']}: NO. {check.get('diagnosis')}", str(check.get("hint") or ""))
        for check in failed
    ]
    failure = host.get("failure")
    if failure and host["status"] == "unreachable":
        words = str(failure.get("message")).removeprefix("Task failed: ")
        lines.append((words, cures.unreachable(words)))
    elif failure and not failed and not (host["status"] == "blocked" and lines):
        lines.append((f"{failure.get('task')}: {failure.get('message')}", ""))
    for warning in host.get("warnings") or []:
        console.print(Text(f"{name}: note: {warning.get('message')}"), soft_wrap=True)
    if not lines or (reported and _is_bad(host)):
        return
    if headed:
        console.print(Text(f"\n{name} {host['status']}:", STYLES[host["status"]]))
    for message, hint in lines:
        console.print(Text("  " + message.replace("\n", "\n  ")), soft_wrap=True)
        if hint:
            console.print(Text(f"    cure: {hint}"), soft_wrap=True)


def _sentence(report: Report) -> str:
    """ "2 hosts: 1 proven, 1 failed (12 s)"."""
    counts: dict[str, int] = {}
    for host in report["hosts"].values():
        counts[host["status"]] = counts.get(host["status"], 0) + 1
    parts = ", ".join(f"{counts[status]} {status}" for status in STYLES if status in counts)
    total = len(report["hosts"])
    word = "host" if total == 1 else "hosts"
    more = "; interrupted" if report.get("interrupted") else ""
    if report.get("not_begun"):
        more += f"; {len(report['not_begun']['hosts'])} not begun"
    return f"\n{total} {word}: {parts} ({report.get('seconds', 0)} s){more}"
