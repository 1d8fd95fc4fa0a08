"""Judges the steps of a Molecule scenario by the report and events of the run they caused.

Molecule can say that a step succeeds. It can't say that a proof must fail, that a check names
exactly these changes and no others, or that a second run did nothing but look: its own idempotence
is a search for "changed=" in the output. The callback plugin's report.json and events.jsonl say all
of that as data, so these functions compare them with the scenario's expect.yml. Each returns its
complaints as sentences; an empty list is a pass. They read what they are given and nothing else,
so they are tested on recorded runs, each seen red.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

# {component: what a person would call the things to be changed}
Plan = Mapping[str, list[str]]

# Owed by a run rather than installed by a role: no component works for it.
RECEIPT = "receipt"


@dataclass(frozen=True)
class Run:
    """What one run of the project's playbook told: report.json and events.jsonl."""

    report: dict[str, Any]
    events: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run whose report lies in a folder; OSError where it wrote none."""
        events = (folder / "events.jsonl").read_text("utf-8").splitlines()
        report = json.loads((folder / "report.json").read_text("utf-8"))
        return cls(report, [json.loads(line) for line in events])

    def host(self, name: str) -> dict[str, Any]:
        """One host's part of the report; empty where the run has not seen it."""
        found: dict[str, Any] = self.report["hosts"].get(name) or {}
        return found

    def results(self, name: str) -> list[dict[str, Any]]:
        """What the tasks of this run came to on one host; tasks that were skipped are left out."""
        return [
            event
            for event in self.events
            if event["event"] == "host_result"
            and event.get("host") == name
            and event.get("status") != "skipped"
        ]


def expand(plan: Mapping[str, list[Any]], row: Mapping[str, Any]) -> dict[str, list[str]]:
    """A plan of expect.yml with {packages: SET} replaced by that set of the lock's stack."""
    found: dict[str, list[str]] = {}
    for component, items in plan.items():
        names = found.setdefault(component, [])
        for item in items:
            if isinstance(item, dict):
                names += row[component]["packages"][item["packages"]]
            else:
                names.append(item)
    return found


def must_fail(run: Run, host: str, components: Iterable[str], checks: list[str]) -> list[str]:
    """The proof failed by exactly these of the components' checks."""
    said = _in_mode(run, "verify")
    failed = _checks(run, host, components)["failed"]
    if not checks:
        said.append("no check is expected to fail: such a proof can't fail")
    return said + _same("checks failed", checks, failed)


def proven(
    run: Run,
    host: str,
    components: Iterable[str],
    passed: list[str],
    not_applicable: list[str],
) -> list[str]:
    """The components' checks passed, exactly these; the others could not apply, exactly these."""
    found = _checks(run, host, components)
    said = _in_mode(run, "verify") + _same("checks failed", [], found["failed"])
    if not passed:
        said.append("no check is expected to pass: that proves nothing")
    said += _same("checks passed", passed, found["passed"])
    return said + _same("checks were not applicable", not_applicable, found["not_applicable"])


def planned(run: Run, host: str, plan: Plan) -> list[str]:
    """`--check` named exactly this plan and did nothing but look."""
    return (
        _in_mode(run, "check")
        + _looked_once(run, host)
        + _same("changes planned", _flat(plan), _changes(run, host))
    )


def converged(run: Run, host: str, plan: Plan, checked: bool | None = None) -> list[str]:
    """The run changed exactly this, by the roles of these components, and left nothing of it.

    `checked` says whether the run shall have ended with the checks of verify/ (None: either).
    """
    entry = run.host(host)
    said = _in_mode(run, "run")
    said += _same("changes planned", _flat(plan), _changes(run, host))
    roles = [name for name in plan if name != RECEIPT]
    ran = {event["component"] for event in run.results(host) if event.get("component")}
    said += _same("roles ran", roles, ran)
    worked = [name for name, part in (entry.get("components") or {}).items() if part["changed"]]
    said += _same("roles changed something", roles, worked)
    left = [one for one in entry.get("left") or [] if one.get("selected", True)]
    said += _same(
        "changes were left", [], [f"{change['component']}: {change['item']}" for change in left]
    )
    if entry.get("failure"):
        said.append(f"the run failed: {entry['failure']['message']}")
    if checked is not None and checked != bool(entry.get("checks")):
        said.append("the run ended with checks" if entry.get("checks") else "the run had no checks")
    return said


def unchanged(run: Run, host: str, mode: str) -> list[str]:
    """The run, or check, found nothing to do and did nothing but look."""
    return (
        _in_mode(run, mode)
        + _looked_once(run, host)
        + _same("changes planned", [], _changes(run, host))
        + _same(
            "tasks changed something",
            [],
            [event["task"] for event in run.results(host) if event.get("changed")],
        )
    )


def _in_mode(run: Run, mode: str) -> list[str]:
    found = run.report["mode"]
    return [] if found == mode else [f"the report is of mode {found}, not of {mode}"]


def _looked_once(run: Run, host: str) -> list[str]:
    tasks = run.results(host)
    looks = [event for event in run.events if event["event"] == "plan" and event["host"] == host]
    if len(looks) == 1 and {event.get("phase") for event in tasks} == {"look"}:
        return []
    said = ", ".join(event["task"] for event in tasks) or "none"
    return [f"it should have looked once and done nothing else; its tasks: {said}"]


def _changes(run: Run, host: str) -> list[str]:
    """The selected changes of the plan, as "component: item"."""
    changes = run.host(host).get("changes") or []
    return [
        f"{change['component']}: {change['item']}"
        for change in changes
        if change.get("selected", True)
    ]


def _flat(plan: Plan) -> list[str]:
    return [f"{component}: {item}" for component, items in plan.items() for item in items]


def _checks(run: Run, host: str, components: Iterable[str]) -> dict[str, list[str]]:
    """The ids of the components' checks by what they came to."""
    wanted = set(components)
    found: dict[str, list[str]] = {"passed": [], "failed": [], "not_applicable": []}
    for check in run.host(host).get("checks") or []:
        if check["id"].partition(".")[0] in wanted:
            found[check["result"]].append(check["id"])
    return found


def _same(what: str, wanted: Iterable[str], found: Iterable[str]) -> list[str]:
    """One sentence on what is too few and one on what is too many; order tells nothing.

    A wanted name may hold a *, for what is known on the host alone; it stands for one name.
    """
    too_few, too_many = list(wanted), []
    for name in found:
        fits = [one for one in too_few if one == name or ("*" in one and fnmatchcase(name, one))]
        if fits:
            too_few.remove(fits[0])
        else:
            too_many.append(name)
    said = []
    if too_few:
        said.append(f"{what}, too few: {', '.join(sorted(too_few))}")
    if too_many:
        said.append(f"{what}, too many: {', '.join(sorted(too_many))}")
    return said
