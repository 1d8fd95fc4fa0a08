"""Puts a report on a terminal: what every host has now, and what is wrong where, with its cure.

The table answers "is my lab good?" in one look; what follows it answers "what do I do?". Colours
repeat what words say already. A simulated GPU is always called one.
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
from provision.report.reading import disguise

STYLES = {
    "proven": "bold green",
    "converged": "green",
    "drift": "yellow",
    "failed": "bold red",
    "blocked": "bold red",
    "unreachable": "bold red",
}
# Narrower than this, the table is set tight and its long words are written short.
WIDE = 110
# So many changes of one kind in a row are told in one line.
MANY = 4


def outcome(report: Report, console: Console, *, told: Collection[str] = ()) -> None:
    """The end of an apply or a verify: the table, then everything that is not good.

    `told`: hosts of whose failure the user has read already, in the live view right above.
    """
    if not report["hosts"]:
        console.print(Text("No host was looked at: does the pattern or --limit match any?"))
        return
    console.print(_versions(report, wide=console.width >= WIDE))
    _disguised(report, console)
    for name, host in report["hosts"].items():
        _problems(name, host, console, told=name in told)
        if host.get("not_selected"):
            names = ", ".join(dict.fromkeys(_component(item) for item in host["not_selected"]))
            why = "differs from its lock" if report.get("mode") == "verify" else "left out by tags"
            console.print(Text(f"{name}: {why}: {names}"))
    above = [name for name, host in report["hosts"].items() if name in told and _is_bad(host)]
    if above:
        console.print(Text(f"\nWhat failed is told above: {', '.join(above)}"), soft_wrap=True)
    if report.get("not_begun"):
        console.print(
            Text(f"\n{report['not_begun']['message']}"),
            soft_wrap=True,
        )
    console.print(Text(_sentence(report)))


def _disguised(report: Report, console: Console) -> None:
    """One line for each host that is not the distribution it says."""
    for name, host in report["hosts"].items():
        if disguise(host):
            console.print(Text(f"{name}: {disguise(host)}"), soft_wrap=True)


def _is_bad(host: dict[str, Any]) -> bool:
    return host["status"] in ("failed", "blocked", "unreachable")


def plan(report: Report, console: Console) -> None:
    """The end of a plan: what would change on every host, and why."""
    if not report["hosts"]:
        console.print(Text("No host was looked at: does the pattern or --limit match any?"))
        return
    for names, host in _alike(report):
        status = host["status"]
        console.print(Text.assemble((names, "bold"), ": ", (status, STYLES[status])))
        for line in _changes(host.get("changes") or []):
            console.print(Text(f"  {line}"), soft_wrap=True)
        # With nothing between them, the line above is heading enough.
        _problems(names, host, console, headed=bool(host.get("changes") or host.get("warnings")))
    _disguised(report, console)
    console.print(Text(_sentence(report)))


def _alike(report: Report) -> list[tuple[str, dict[str, Any]]]:
    """Hosts of which the very same is to be said, together: a lab's hosts mostly drift alike."""
    groups: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for name, host in report["hosts"].items():
        said = ("status", "simulated_gpu", "changes", "blockers", "failure")
        key = json.dumps([host.get(part) for part in said], sort_keys=True)
        groups.setdefault(key, ([], host))[0].append(name)
    return [
        (", ".join(names) + (" (simulated GPU)" if host.get("simulated_gpu") else ""), host)
        for names, host in groups.values()
    ]


def _changes(changes: list[dict[str, Any]]) -> Iterator[str]:
    """One line per change; many in a row that differ in name and version alone share one.

    A bare host lacks some forty packages, and among as many lines nobody sees the odd one.
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
    """What else is to be said of these changes."""
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
        found, wanted = host.get("found") or {}, host.get("wanted") or {}
        absent = host.get("absent") or ()
        table.add_row(
            Text(name),
            Text(host["status"], STYLES[host["status"]]),
            _version(
                found.get("nvidia_driver"),
                wanted.get("nvidia_driver"),
                gone="nvidia_driver" in absent,
            ),
            _version(found.get("cuda"), wanted.get("cuda"), gone="cuda" in absent),
            _version(found.get("cudnn"), wanted.get("cudnn"), gone="cudnn" in absent),
            _version(
                found.get("tensorflow"), wanted.get("tensorflow"), gone="tensorflow" in absent
            ),
            Text(_gpus(host)),
            Text(_counts(host) if wide else _counts(host).replace("not applicable", "n/a")),
        )
    return table


def _version(found: Any, wanted: Any, *, gone: bool = False) -> Text:
    """What is there; marked where the lock wants another, or none is wished for."""
    if gone:
        return Text("absent" if found is None else f"{found}, not wished", "dim")
    if found is None:
        return Text(f"none, not {wanted}" if wanted else "", "yellow" if wanted else "")
    # cuDNN tells three numbers of its four.
    if wanted is None or found == wanted or str(wanted).startswith(f"{found}."):
        return Text(str(found))
    return Text(f"{found}, not {wanted}", "yellow")


def _gpus(host: dict[str, Any]) -> str:
    found = host.get("found") or {}
    count = found.get("tensorflow_gpus", found.get("gpus"))
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
    told: bool = False,
) -> None:
    """Blockers, failed checks and the failure of one host, each with its cure.

    Notes are new to a user who was told of the rest.
    """
    lines: list[tuple[str, str]] = [
        (str(blocker.get("message")), str(blocker.get("hint") or ""))
        for blocker in host.get("blockers") or []
    ]
    bad = failed_checks(host)
    lines += [
        (f"{check['title']}: NO. {check.get('diagnosis')}", str(check.get("hint") or ""))
        for check in bad
    ]
    failure = host.get("failure")
    if failure and host["status"] == "unreachable":
        words = str(failure.get("message")).removeprefix("Task failed: ")
        lines.append((words, cures.unreachable(words)))
    elif failure and not bad and not (host["status"] == "blocked" and lines):
        lines.append((f"{failure.get('task')}: {failure.get('message')}", ""))
    for warning in host.get("warnings") or []:
        console.print(Text(f"{name}: note: {warning.get('message')}"), soft_wrap=True)
    if not lines or (told and _is_bad(host)):
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
