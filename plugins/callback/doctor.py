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

from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.doctor import (  # noqa: E402
    words,
)
from ansible_collections.provision.gpu.plugins.plugin_utils import cures  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.examination import (  # noqa: E402
    Examination,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.results import json_copy  # noqa: E402


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
        text: list[str] = words.lines(report, cures.unreachable)
        return text
