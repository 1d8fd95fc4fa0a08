"""Writes a run's folder: events as they happen, what is known by now, and the report at the end."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils import runs
from ansible_collections.provision.gpu.plugins.plugin_utils.files import write_atomically
from ansible_collections.provision.gpu.plugins.plugin_utils.record import Record, utc

# How often what is known is written while a run is at work.
NOTE_SECONDS = 10.0


class Writer:
    """One run's folder in the project at `tree`; what can't be written is told to `warn`."""

    def __init__(self, tree: Path, record: Record, warn: Callable[[str], None]) -> None:
        self.folder = Path()
        self._home = tree / "report"
        self._record = record
        self._warn = warn
        self._events: int | None = None
        # Is the folder one of the project's runs? It may be told to write elsewhere.
        self._kept = False
        self._noted = 0.0

    def begin(self) -> None:
        """Makes the run's folder, and opens its events."""
        # Of this run alone: a playbook that a task of it starts has its own.
        given = os.environ.pop("PROVISION_REPORT_DIR", None)
        try:
            if given:
                self.folder = Path(given)
                self.folder.mkdir(parents=True, exist_ok=True)
            else:
                self.folder = runs.begin(self._home, self._record.mode, self._record.started)
            self._open()
        except OSError as error:
            self._go_elsewhere(Path(given) if given else self._home, error)
        # The verify play puts its checks there.
        os.environ["PROVISION_REPORT_RUN"] = str(self.folder)
        self._kept = runs.is_kept(self.folder, self._home)
        if self._kept:
            try:
                runs.adopt(self._home)
                obstacle = runs.show(self._home, self.folder)
            except OSError as error:
                obstacle = f"the last report can't be found by its name: {error}"
            if obstacle:
                self._warn(obstacle)
        self._note()

    def event(self, event: str, **fields: Any) -> None:
        """A line of events.jsonl."""
        if self._events is None:
            return
        line = {"time": utc(time.time()), "event": event, **fields}
        text = json.dumps(line, ensure_ascii=False, default=str) + "\n"
        try:
            os.write(self._events, text.encode())
        except OSError as error:
            self._warn(f"no more events of this run: {error.strerror}")
            self._events = None

    def note(self) -> None:
        """Writes what is known, now and then: a run that is killed leaves that, as unfinished."""
        if time.monotonic() - self._noted > NOTE_SECONDS:
            self._note()

    def finish(self, *, failures: set[str] | None, interrupted: bool, keep: int) -> dict[str, Any]:
        """Writes the report, which it returns, and removes old ones."""
        report = self._report(failures=failures, interrupted=interrupted)
        try:
            self._write(report)
        except OSError as error:
            self._warn(f"no report of this run: {self.folder}: {error.strerror}")
        self.event("run_end", statuses={n: h["status"] for n, h in report["hosts"].items()})
        stream, self._events = self._events, None
        if stream is not None:
            os.close(stream)
        if self._kept:
            try:
                runs.finish(self._home, self.folder, keep)
            except OSError as error:
                self._warn(f"old reports are not removed: {error}")
        return report

    def _open(self) -> None:
        events = self.folder / "events.jsonl"
        events.unlink(missing_ok=True)
        # Two threads write: one call a line, at the end of the file, can't be torn.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._events = os.open(events, flags, 0o644)
        os.fchmod(self._events, 0o644)
        runs.claim(self._events)

    def _go_elsewhere(self, wrong: Path, error: OSError) -> None:
        """A project that takes no report must not cost this run its own."""
        why = f"{wrong} takes no report: {runs.reason(wrong, error)}."
        try:
            self.folder = runs.elsewhere(self._record.mode, self._record.started)
            self._open()
        except OSError:
            self._warn(f"{why} This run has none.")
        else:
            self._warn(f"{why} This run's is in {self.folder}.")

    def _note(self) -> None:
        self._noted = time.monotonic()
        report = self._report(failures=None, interrupted=True) | {"unfinished": True}
        with contextlib.suppress(OSError):  # the end says so
            self._write(report)

    def _report(self, *, failures: set[str] | None, interrupted: bool) -> dict[str, Any]:
        # One that is told where to write has its own past there.
        previous = runs.read(self.folder / "report.json")
        if self._kept or not previous:
            previous = runs.previous(self._home, self.folder)
        report: dict[str, Any] = self._record.report(
            time.time(),
            previous=previous,
            checks=self._checks(),
            interrupted=interrupted,
            failures=failures,
        )
        return report

    def _write(self, report: dict[str, Any]) -> None:
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.folder / "report.json", text)

    def _checks(self) -> dict[str, Any]:
        """The checks of this run's verify play; an older file says nothing about this run."""
        path = self.folder / "checks.json"
        try:
            written = path.stat().st_mtime
        except OSError:
            return {}
        checks: dict[str, Any] = runs.read(path) if written >= self._record.started else {}
        return checks
