"""The findings of `provision doctor` in words, from hosts or from a log.

The cases and rules are the collection's, with which doctor.yml examines hosts. They are imported
from there, so that a pasted log is judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provision import collection
from provision.report import cures

# In bytes; of a longer log the end is read, where the reasons are.
LOG_LIMIT = 8 * 1024 * 1024

Finding = dict[str, Any]


def cases() -> tuple[Any, ...]:
    """All cases, with id, title, threads, cure, commands, says and fix."""
    all_cases: tuple[Any, ...] = collection.stack_module("doctor.findings").CASES
    return all_cases


def read_log(data: bytes, who: str) -> list[Finding]:
    """The findings in a log; [] where no case matches."""
    text = data[-LOG_LIMIT:].decode("utf-8", "replace")
    findings: list[Finding] = collection.stack_module("doctor.findings").read_log(text, who)
    return findings


def lines(finding: Finding, *, fix: bool = True) -> Iterator[str]:
    """A finding's lines: its title, the evidence, the cure, the threads where it was met."""
    yield f"  {finding['title']} [{finding['id']}]"
    for line in finding["evidence"]:
        yield f"    because: {line}"
    yield f"    cure: {finding['cure']}"
    for command in finding["commands"]:
        yield f"      $ {command}"
    means = finding.get("fix") or {}
    if fix and means.get("components"):
        yield f"    --fix: runs {', '.join(means['components'])}"
    elif fix and means.get("steps"):
        yield "    --fix: does it"
    if finding["threads"]:
        yield f"    known from: {', '.join(finding['threads'])}"


def tell(report: Mapping[str, Any], *, fix: bool = True) -> Iterator[str]:
    """The lines of the hosts' report; without `fix` no hints at --fix."""
    for name, host in report["hosts"].items():
        count = len(host["findings"])
        states = {"ill": f"{count} finding{'' if count == 1 else 's'}"}
        states["healthy"] = "healthy, with notes" if host.get("notes") else "healthy"
        states["differs"] = "no known trouble, and not as locked"
        label = " (its GPU is simulated)" if host["simulated_gpu"] else ""
        yield f"{name}: {states.get(host['status'], host['status'])}{label}"
        if host["message"]:
            yield f"  {host['message']}"
        if host["status"] == "unreachable":
            yield f"    cure: {cures.unreachable(host['message'])}"
        for title in host["fixed"]:
            yield f"  fixed: {title}"
        for finding in host["findings"]:
            yield from lines(finding, fix=fix)
        for note in host.get("notes") or []:
            yield f"  note: {note}"
        if not host["locked"]:
            yield "  note: the lock has no row for this host, which is judged without it"
        if host["differences"]:
            yield f"  note: {host['differences']} differences from the lock: provision plan"


def components(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Host -> the components whose run would fix a finding."""
    return {
        name: host["components"]
        for name, host in report["hosts"].items()
        if host["components"] and host["status"] == "ill"
    }
