"""The report of a playbook that only asks its hosts: doctor.yml, accept.yml.

Not part of the run's report: an examination is no run, and must not replace the run's report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.provision.gpu.plugins.plugin_utils.files import write_atomically
from ansible_collections.provision.gpu.plugins.plugin_utils.project import file_name, of_run
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (
    MESSAGE_LIMIT,
    without_credentials,
)

# Playbooks that have such a report instead of a run's.
PLAYBOOKS = ("doctor.yml", "accept.yml", "train.yml")
# Plugins whose play may also be a run's, and has not begun there.
_waiting: list[Examination] = []


def text_of(report: dict[str, Any]) -> str:
    """The report's JSON, a line for each host: with an indent Python's encoder takes ten times as
    long, which for hundreds of GPUs is seconds.
    """

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    hosts = ",\n".join(f"{text(name)}: {text(entry)}" for name, entry in report["hosts"].items())
    more = {key: text(value) for key, value in report.items() if key != "hosts"}
    parts = {**more, "hosts": f"{{\n{hosts}\n}}"}
    return "{\n" + ",\n".join(f"{text(key)}: {part}" for key, part in parts.items()) + "\n}\n"


def begin(play: str) -> None:
    """Enables the plugin whose play of this name begins as a part of a run."""
    for plugin in _waiting:
        if play == plugin.PLAY:
            plugin.enable()


class Examination(CallbackBase):  # type: ignore[misc]  # ansible has no types
    """Collects every host's answer and writes report/FILE; a subclass says what an answer is."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NEEDS_ENABLED = False
    CALLBACK_NEEDS_WHITELIST = False

    PLAYBOOK = ""
    # The name of its play, where that may also be the end of a run.
    PLAY = ""
    FILE = ""
    # The last task fails where something was found, for Ansible's own exit code.
    VERDICT = ""
    # The status of a host on which a task failed.
    BROKEN = "failed"

    def __init__(self) -> None:
        super().__init__()
        # The project is known with the playbook.
        self._project = Path()
        self._folder = Path()
        self._active = False
        self._hosts: dict[str, dict[str, Any]] = {}

    def entry(self, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
        """A host's part of the report, of a task's result; None for a result that is no answer.

        `before`: the part of an earlier answer in this run, or {}.
        """
        raise NotImplementedError

    def unanswered(self) -> dict[str, Any]:
        """A host's part of the report, but for status and message, where it did not answer."""
        raise NotImplementedError

    def blamed(self, entry: dict[str, Any]) -> bool:
        """Whether the VERDICT task fails for what this answer says, and not for itself."""
        raise NotImplementedError

    def lines(self, report: dict[str, Any]) -> Sequence[str]:
        """The report as text, for the end of a run by Ansible alone."""
        raise NotImplementedError

    def more(self) -> dict[str, Any]:
        """What the report has besides its hosts."""
        return {}

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._active = file_name(playbook) == self.PLAYBOOK
        # Ansible calls no disabled plugin. It copies each result for each one that it calls, and a
        # run over many hosts has many results.
        self.disabled = not self._active
        folder = os.environ.get("PROVISION_REPORT_DIR")
        self._project = of_run(playbook, self._display.error)
        # In a run that names the run's own folder.
        self._folder = Path(folder) if folder and self._active else self._project / "report"
        if self.PLAY and not self._active:
            _waiting.append(self)

    def enable(self) -> None:
        """Takes part in the run that has come to this play."""
        self._active, self.disabled = True, False

    def v2_runner_on_ok(self, result: Any) -> None:
        if not self._active:
            return
        name = result._host.get_name()
        entry = self.entry(result._result, self._hosts.get(name, {}))
        if entry is not None:
            self._hosts[name] = entry

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not self._active or ignore_errors:
            return
        entry = self._hosts.get(result._host.get_name())
        expected = entry is not None and self.blamed(entry)
        if not expected or result._task.get_name().strip() != self.VERDICT:
            self._record_failure(result, self.BROKEN)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._active:
            self._record_failure(result, "unreachable")

    def _record_failure(self, result: Any, status: str) -> None:
        """Sets a host's status and message, and keeps what earlier tasks returned."""
        data = result._result
        parts = [str(data.get(key) or "").strip() for key in ("msg", "stderr", "module_stderr")]
        text = without_credentials("\n".join(part for part in parts if part))
        host = self._hosts.get(result._host.get_name(), self.unanswered())
        self._hosts[result._host.get_name()] = {
            **host,
            "status": status,
            "message": text[:MESSAGE_LIMIT],
        }

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        asked = self._hosts or self not in _waiting
        if not self._active or not asked:
            return
        hosts = {name: self._hosts[name] for name in sorted(self._hosts)}
        report = {"format": 1, "hosts": hosts, **self.more()}
        path = self._folder / self.FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text_of(report))
        except OSError as error:
            self._display.warning(f"no report: {path}: {error.strerror}")
        if not os.environ.get("PROVISION_LIVE"):
            self._display.display("")
            for line in self.lines(report):
                self._display.display(line)
