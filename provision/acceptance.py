"""The verdicts of `provision accept` in words, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provision import collection
from provision.report import cures


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of report/acceptance.json: a host's verdict, and one line for each fault."""
    words = _words()
    for name, host in report["hosts"].items():
        yield from words.host(name, host)
        if host["status"] == "unreachable":
            yield f"    cure: {cures.unreachable(host['message'])}"
    for text in report.get("warnings") or ():
        yield f"warning: {text}"


def page(report: Mapping[str, Any]) -> bytes:
    """The page of report/acceptance.json."""
    # Jinja takes long to import, and most acceptances do without.
    from provision.report.html import acceptance

    return acceptance.render(report, _words().blamed)


def _words() -> Any:
    """The collection's own words, so that Ansible alone says the same."""
    return collection.stack_module("acceptance.words")
