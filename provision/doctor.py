"""The findings of `provision doctor` in words, from hosts or from a log.

The cases and rules are the collection's, with which doctor.yml examines hosts. They are imported
from there, so that a pasted log is judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def lines(finding: Finding, *, fix: bool = True) -> list[str]:
    """A finding's lines: its title, the evidence, the cure, the threads where it was met."""
    text: list[str] = _words().finding(finding, fix)
    return text


def tell(report: Mapping[str, Any], *, fix: bool = True) -> list[str]:
    """The lines of the hosts' report; without `fix` no hints at --fix."""
    text: list[str] = _words().lines(report, cures.unreachable, fix)
    return text


def components(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Host -> the components whose run would fix a finding."""
    return {
        name: host["components"]
        for name, host in report["hosts"].items()
        if host["components"] and host["status"] == "ill"
    }


def _words() -> Any:
    """The collection's own words, so that Ansible alone says the same."""
    return collection.stack_module("doctor.words")
