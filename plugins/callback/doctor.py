"""Writes report/doctor.json at the end of doctor.yml, and shows it on the terminal.

Not part of the report's plugin: an examination is no run, and must not replace the run's report.
"""

from __future__ import annotations

DOCUMENTATION = """
name: doctor
type: aggregate
short_description: Writes report/doctor.json
description:
  - Records what doctor.yml found on every host.
author: The provision authors (!UNKNOWN)
options: {}
"""

import json  # noqa: E402
import os  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.plugins.callback import CallbackBase  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.files import write_atomically  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.project import project_of  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (  # noqa: E402
    MESSAGE_LIMIT,
    plain,
    without_credentials,
)

PLAYBOOK = "doctor.yml"
# The last task fails where there are findings, for Ansible's own exit code.
VERDICT = "Doctor | Refuse to call a host healthy that is not"


def lines(report: dict[str, Any]) -> list[str]:
    """The report as text: each host's findings, with their evidence and cure."""
    text = []
    for name, host in report["hosts"].items():
        count = len(host["findings"])
        words = {"ill": f"{count} finding{'s' if count != 1 else ''}"}
        words["healthy"] = "healthy, with notes" if host.get("notes") else "healthy"
        words["differs"] = "no known trouble, and not as locked"
        text.append(f"{name}: {words.get(host['status'], host['status'])}")
        if host["message"]:
            text.append(f"  {host['message']}")
        text += [f"  fixed: {title}" for title in host["fixed"]]
        for finding in host["findings"]:
            text += _finding_lines(finding)
        text += [f"  note: {note}" for note in host.get("notes") or []]
        if not host["locked"]:
            text.append("  note: the lock has no row for this host, which is judged without it")
        if host["differences"] and host["status"] != "unreachable":
            text.append(f"  note: {host['differences']} differences from the lock: see the plan")
    return text


def _finding_lines(finding: dict[str, Any]) -> list[str]:
    text = [f"  {finding['title']} [{finding['id']}]"]
    text += [f"    because: {line}" for line in finding["evidence"]]
    text.append(f"    cure: {finding['cure']}")
    text += [f"      $ {command}" for command in finding["commands"]]
    fix = finding.get("fix") or {}
    if fix.get("components"):
        text.append(f"    --fix: runs {', '.join(fix['components'])}")
    elif fix.get("steps"):
        text.append("    --fix: does it")
    if finding["threads"]:
        text.append(f"    known from: {', '.join(finding['threads'])}")
    return text


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible has no types
    """Collects the doctor's answers of every host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "provision.gpu.doctor"
    CALLBACK_NEEDS_ENABLED = False
    CALLBACK_NEEDS_WHITELIST = False

    def __init__(self) -> None:
        super().__init__()
        # The project is known with the playbook.
        self._folder = Path()
        self._active = False
        self._hosts: dict[str, dict[str, Any]] = {}

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._active = os.path.basename(str(getattr(playbook, "_file_name", ""))) == PLAYBOOK
        # Ansible calls no disabled plugin. It copies each result for each one that it calls, and a
        # run over many hosts has many results.
        self.disabled = not self._active
        folder = os.environ.get("PROVISION_REPORT_DIR")
        self._folder = Path(folder) if folder else project_of(playbook) / "report"

    def v2_runner_on_ok(self, result: Any) -> None:
        if not self._active:
            return
        data = result._result
        if "findings" not in data:
            return
        answer = plain(data)
        now = [finding["id"] for finding in answer["findings"]]
        before = self._hosts.get(result._host.get_name(), {}).get("findings", [])
        self._hosts[result._host.get_name()] = {
            "status": "ill" if now else "differs" if answer["differences"] else "healthy",
            "message": "",
            "findings": answer["findings"],
            "fixed": [finding["title"] for finding in before if finding["id"] not in now],
            "components": answer["fixes"]["components"],
            "locked": answer["locked"],
            "differences": answer["differences"],
            "notes": answer.get("notes") or [],
            "simulated_gpu": answer["simulated_gpu"],
        }

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not self._active or ignore_errors:
            return
        known = self._hosts.get(result._host.get_name(), {}).get("status")
        if known != "ill" or result._task.get_name().strip() != VERDICT:
            self._record_failure(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._active:
            self._record_failure(result, "unreachable")

    def _record_failure(self, result: Any, status: str) -> None:
        """Sets a host's status and message, and keeps what earlier tasks returned."""
        data = result._result
        parts = [str(data.get(key) or "").strip() for key in ("msg", "stderr", "module_stderr")]
        text = without_credentials("\n".join(part for part in parts if part))
        none: dict[str, Any] = {
            "findings": [], "fixed": [], "components": [], "locked": True, "differences": 0,
            "simulated_gpu": False,
        }  # fmt: skip
        host = self._hosts.get(result._host.get_name(), none)
        self._hosts[result._host.get_name()] = {
            **host,
            "status": status,
            "message": text[:MESSAGE_LIMIT],
        }

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        if not self._active:
            return
        report = {"format": 1, "hosts": {name: self._hosts[name] for name in sorted(self._hosts)}}
        path = self._folder / "doctor.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            self._display.warning(f"no report: {path}: {error.strerror}")
        if not os.environ.get("PROVISION_LIVE"):
            self._display.display("")
            for line in lines(report):
                self._display.display(line)
