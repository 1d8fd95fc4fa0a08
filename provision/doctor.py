"""What `provision doctor` says: of hosts that were asked, and of a log without any host.

The cases and the rules are the collection's: doctor.yml asks hosts with them. Here they are
imported from the collection, so that a pasted log is judged by the same ones.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from provision import collection
from provision.report import cures

# More is no log that a person pastes; the reasons stand at its end.
LOG_LIMIT = 8 * 1024 * 1024

Finding = dict[str, Any]


def _stack(module: str) -> Any:
    """A module of the collection's `gpu_stack`."""
    place = str(collection.module_utils())
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module(f"gpu_stack.{module}")


def cases() -> tuple[Any, ...]:
    """Every case that is known, with id, title, threads, cure, commands, says and fix."""
    found: tuple[Any, ...] = _stack("doctor.findings").CASES
    return found


def read_log(data: bytes, who: str) -> list[Finding]:
    """The findings of a log; none where it says nothing that is known."""
    text = data[-LOG_LIMIT:].decode("utf-8", "replace")
    found: list[Finding] = _stack("doctor.findings").read_log(text, who)
    return found


def lines(finding: Finding, *, fix: bool = True) -> Iterator[str]:
    """A finding as a person reads it: what, why, the cure, where it is known from."""
    yield f"  {finding['title']} [{finding['id']}]"
    for line in finding["evidence"]:
        yield f"    because: {line}"
    yield f"    cure: {finding['cure']}"
    for command in finding["commands"]:
        yield f"      $ {command}"
    by = finding.get("fix") or {}
    if fix and by.get("components"):
        yield f"    --fix: runs {', '.join(by['components'])}"
    elif fix and by.get("steps"):
        yield "    --fix: does it"
    if finding["threads"]:
        yield f"    known from: {', '.join(finding['threads'])}"


def tell(report: Mapping[str, Any], *, fix: bool = True) -> Iterator[str]:
    """The report of the hosts, line by line; `fix` False where that was done already."""
    for name, host in report["hosts"].items():
        count = len(host["findings"])
        words = {"ill": f"{count} finding{'' if count == 1 else 's'}"}
        words["healthy"] = "healthy, with notes" if host.get("notes") else "healthy"
        words["differs"] = "no known trouble, and not as locked"
        label = " (its GPU is simulated)" if host["simulated_gpu"] else ""
        yield f"{name}: {words.get(host['status'], host['status'])}{label}"
        if host["message"]:
            yield f"  {host['message']}"
        if host["status"] == "unreachable":
            yield f"    cure: {cures.unreachable(host['message'])}"
        for title in host["fixed"]:
            yield f"  fixed: {title}"
        for one in host["findings"]:
            yield from lines(one, fix=fix)
        for note in host.get("notes") or []:
            yield f"  note: {note}"
        if not host["locked"]:
            yield "  note: the lock has no row for this host, which is judged without it"
        if host["differences"]:
            yield f"  note: {host['differences']} differences from the lock: provision plan"


def components(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """{host: components} whose run would fix something."""
    return {
        name: host["components"]
        for name, host in report["hosts"].items()
        if host["components"] and host["status"] == "ill"
    }
