"""Writes a run's folder: events as they happen, an unfinished report, and the report at the end."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils import runs
from ansible_collections.provision.gpu.plugins.plugin_utils.files import encoded, write_atomically
from ansible_collections.provision.gpu.plugins.plugin_utils.record import Record, utc

# How often the unfinished report is written while a run is at work.
NOTE_SECONDS = 10.0


class Writer:
    """One run's folder in the project at `tree`; `warn` is called where it can't be written."""

    def __init__(self, tree: Path, record: Record, warn: Callable[[str], None]) -> None:
        self.folder = Path()
        self._home = tree / "report"
        self._record = record
        self._warn = warn
        self._events: int | None = None
        # Whether the folder is one of the project's runs; PROVISION_REPORT_DIR names another.
        self._kept = False
        self._noted = 0.0

    def begin(self) -> None:
        """Creates the run's folder, and opens its events."""
        # Removed: a playbook that a task of this run starts has its own.
        chosen = os.environ.pop("PROVISION_REPORT_DIR", None)
        try:
            if chosen:
                self.folder = Path(chosen)
                self.folder.mkdir(parents=True, exist_ok=True)
            else:
                self.folder = runs.begin(self._home, self._record.mode, self._record.started)
            self._open()
        except OSError as error:
            self._begin_temporary(Path(chosen) if chosen else self._home, error)
        # The verify play writes its checks there.
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
        """Writes a line of events.jsonl."""
        if self._events is None:
            return
        line = {"time": utc(time.time()), "event": event, **fields}
        text = json.dumps(line, ensure_ascii=False, default=str) + "\n"
        try:
            os.write(self._events, encoded(text))
        except OSError as error:
            self._warn(f"no more events of this run: {error.strerror}")
            self._events = None

    def note(self) -> None:
        """Writes the unfinished report now and then: a killed run leaves it."""
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

    def _begin_temporary(self, path: Path, error: OSError) -> None:
        """Writes to a temporary folder where `path` can't be written, and warns."""
        why = f"{path} takes no report: {runs.reason(path, error)}."
        try:
            self.folder = runs.begin_temporary(self._record.mode, self._record.started)
            self._open()
        except OSError:
            self._warn(f"{why} This run has none.")
        else:
            self._warn(f"{why} This run's is in {self.folder}.")

    def _note(self) -> None:
        self._noted = time.monotonic()
        report = self._report(failures=None, interrupted=True) | {"unfinished": True}
        with contextlib.suppress(OSError):  # `finish` warns of it
            self._write(report)

    def _report(self, *, failures: set[str] | None, interrupted: bool) -> dict[str, Any]:
        # A folder that was chosen holds its own previous report.
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
        """The checks of this run's verify play; {} where the file is older than the run."""
        path = self.folder / "checks.json"
        try:
            written = path.stat().st_mtime
        except OSError:
            return {}
        checks: dict[str, Any] = runs.read(path) if written >= self._record.started else {}
        return checks
