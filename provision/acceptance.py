"""The verdicts of `provision accept` in words, as a page, and as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provision import collection, inputs
from provision.errors import ProvisionError
from provision.report import cures

# The last acceptance, in a project's report/.
FILE = "acceptance.json"


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of report/acceptance.json: a host's verdict, and one line for each fault."""
    words = _words()
    for name, host in report["hosts"].items():
        yield from words.host(name, host)
        if host["status"] == "unreachable":
            yield f"    cure: {cures.unreachable(host['message'])}"
    for text in report.get("warnings") or ():
        yield f"warning: {text}"


def ended(folder: Path, run: Mapping[str, Any]) -> list[str]:
    """A line for each host that a run asked at its end, by the `report/` of its project.

    That is where `gpu_accept` wishes it. What is wrong with a host stands in the run's own report.
    """
    try:
        report = json.loads(inputs.read(folder / FILE, limit=None))
        # Both have the time of this machine, in one format.
        if report["finished"] < run["started"]:
            return []
        return [_words().host(name, host)[0] for name, host in report["hosts"].items()]
    except (OSError, ProvisionError, ValueError, KeyError, TypeError):
        return []  # as of a run that asked none: nothing depends on these lines


def is_red(state: str) -> bool:
    """Whether somebody must do something about a check or verdict of this state."""
    return state in collection.stack_module("acceptance.findings").BLAMED


def title(gpu: Mapping[str, Any]) -> str:
    """A GPU of a verdict: "GPU 2 GPU-8f2a... (Tesla T4, serial 0421, slot 4, 0000:3d:00.0)"."""
    return str(_words().title(gpu))


def page(report: Mapping[str, Any], past: Mapping[str, Any]) -> bytes:
    """The page of report/acceptance.json; `past` is `history`'s."""
    # Jinja takes long to import, and most acceptances do without.
    from provision.report.html import acceptance

    return acceptance.render(report, _words().blamed, past)


def history(folder: Path) -> Mapping[str, Any]:
    """{UUID: {figure: [former values, the oldest first]}} of a project's report/."""
    kept = collection.stack_module("acceptance.teaching.history")
    # The acceptance itself has warned of what is spoiled.
    earlier = kept.read(str(folder / kept.FOLDER), lambda _message: None)
    values: Mapping[str, Any] = kept.by_card(earlier)
    return values


def junit(report: Mapping[str, Any]) -> bytes:
    """The JUnit XML of report/acceptance.json."""
    from provision.report import acceptance_junit

    return acceptance_junit.render(report, _words().blamed)


def _words() -> Any:
    """The collection's own words, so that Ansible alone says the same."""
    return collection.stack_module("acceptance.words")
