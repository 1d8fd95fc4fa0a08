"""The verdicts of `provision accept` in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provision import collection
from provision.report import cures


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of report/acceptance.json: a host's verdict, and one line for each fault."""
    words = collection.stack_module("acceptance.words")
    for name, host in report["hosts"].items():
        yield from words.host(name, host)
        if host["status"] == "unreachable":
            yield f"    cure: {cures.unreachable(host['message'])}"
