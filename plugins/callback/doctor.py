"""Writes report/doctor.json at the end of doctor.yml, and shows it on the terminal."""

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

from typing import Any  # noqa: E402

from ansible_collections.provision.gpu.plugins.plugin_utils.examination import (  # noqa: E402
    Examination,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.results import json_copy  # noqa: E402


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


class CallbackModule(Examination):  # type: ignore[misc]  # ansible has no types
    """Collects the doctor's answers of every host."""

    CALLBACK_NAME = "provision.gpu.doctor"
    PLAYBOOK = "doctor.yml"
    FILE = "doctor.json"
    VERDICT = "Doctor | Refuse to call a host healthy that is not"

    def entry(self, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
        if "findings" not in data:
            return None
        answer = json_copy(data)
        now = [finding["id"] for finding in answer["findings"]]
        return {
            "status": "ill" if now else "differs" if answer["differences"] else "healthy",
            "message": "",
            "findings": answer["findings"],
            "fixed": [
                finding["title"]
                for finding in before.get("findings", [])
                if finding["id"] not in now
            ],
            "components": answer["fixes"]["components"],
            "locked": answer["locked"],
            "differences": answer["differences"],
            "notes": answer.get("notes") or [],
            "simulated_gpu": answer["simulated_gpu"],
        }

    def unanswered(self) -> dict[str, Any]:
        return {
            "findings": [], "fixed": [], "components": [], "locked": True, "differences": 0,
            "simulated_gpu": False,
        }  # fmt: skip

    def blamed(self, entry: dict[str, Any]) -> bool:
        return bool(entry["status"] == "ill")

    def lines(self, report: dict[str, Any]) -> list[str]:
        return lines(report)
