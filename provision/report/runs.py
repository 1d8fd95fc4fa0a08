"""The reports of a project's runs: the last one, and the earlier ones that are kept.

The tree's callback creates a folder for each run in `report/`, and the link `latest`. A folder that
a person has renamed, to keep it, counts like the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from provision.errors import InputError, ProvisionError
from provision.report import Report, load

REPORT = "report.json"
LATEST = "latest"
# A folder as the callback names it; a person may have renamed it.
TIMED = re.compile(r"\d{8}T\d{6}Z-")


@dataclass(frozen=True)
class Run:
    """A run by its folder's name; `report` is None without a readable one, and `wrong` says why."""

    name: str
    report: Report | None
    wrong: str = ""

    @property
    def state(self) -> str:
        """How many hosts have each status, and whether the run was unfinished or interrupted."""
        if self.report is None:
            return self.wrong
        run = Earlier.of(self.name, self.report)
        statuses = Counter(run.statuses.values())
        parts = [f"{count} {status}" for status, count in sorted(statuses.items())]
        parts += [run.note] if run.note else []
        return ", ".join(parts) or "no host was looked at"


@dataclass(frozen=True)
class Earlier:
    """What is kept in mind of a run: a whole report of a fleet is megabytes."""

    name: str
    mode: str
    started: str
    note: str
    statuses: dict[str, str]

    @classmethod
    def of(cls, name: str, report: Report) -> Earlier:
        """The run of this report; its note says whether it ended early."""
        words = ("unfinished", "interrupted")
        return cls(
            name,
            str(report.get("mode")),
            str(report.get("started")),
            next((word for word in words if report.get(word)), ""),
            {host: entry["status"] for host, entry in report["hosts"].items()},
        )


def earlier(project: Path, report: Report, limit: int) -> list[Earlier]:
    """The last `limit` runs that began before that of `report`, the oldest first.

    One without a readable report is left out: the page of a good run does not fail for it.
    """
    began = str(report.get("started"))
    folders = _folders(project / "report")
    renamed = [folder for folder in folders if not TIMED.match(folder.name)]
    timed = [folder for folder in reversed(folders) if TIMED.match(folder.name)]
    # Of folders named by their times not all are read.
    candidates = [*_before(renamed, began), *islice(_before(timed, began), limit)]
    return sorted(candidates, key=lambda run: run.started)[-limit:] if limit else []


def _before(folders: list[Path], began: str) -> Iterator[Earlier]:
    for folder in folders:
        try:
            run = Earlier.of(folder.name, load(folder / REPORT))
        except ProvisionError:
            continue
        if run.started < began:
            yield run


def last(project: Path) -> Path:
    """The path of the last run's report.json; without a run, where it would be."""
    home = project / "report"
    latest = home / LATEST / REPORT
    if latest.is_file():
        return latest
    # A copied project may have lost its link.
    written = [folder / REPORT for folder in _folders(home) if (folder / REPORT).is_file()]
    if written:
        return written[-1]
    former = home / REPORT
    return former if former.is_file() else latest


def named(project: Path, name: str) -> Path:
    """The path of a run's report.json, by its name or the beginning of it. Raises InputError."""
    names = [folder.name for folder in _folders(project / "report")]
    matches = [kept for kept in names if kept == name] or [
        kept for kept in names if kept.startswith(name)
    ]
    if len(matches) == 1:
        return project / "report" / matches[0] / REPORT
    raise InputError(
        f"{len(matches)} runs have such a name" if matches else "no such run is kept",
        where=str(project / "report"),
        got=name,
        expected=", ".join((matches or names)[-5:]),
        hint="`provision report --list` shows all",
    )


def kept(project: Path) -> list[Run]:
    """All kept runs, the oldest first."""
    runs = []
    for folder in _folders(project / "report"):
        try:
            runs.append(Run(folder.name, load(folder / REPORT)))
        except ProvisionError as error:
            missing = not (folder / REPORT).exists()
            wrong = "Ansible ended before it saw a host" if missing else error.message
            runs.append(Run(folder.name, None, wrong))
    return runs


def _folders(home: Path) -> list[Path]:
    """The folders of runs, the oldest first: their names begin with their time."""
    try:
        entries = sorted(home.iterdir())
    except OSError:
        return []
    return [
        path
        for path in entries
        if path.name != LATEST
        and path.is_dir()
        and not path.is_symlink()
        and any((path / name).is_file() for name in (REPORT, "events.jsonl", "ansible.log"))
    ]
