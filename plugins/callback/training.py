"""Writes report/training.json at the end of train.yml, and says how to come back to the job."""

from __future__ import annotations

DOCUMENTATION = """
name: training
type: aggregate
short_description: Writes report/training.json
description:
  - Records the job that train.yml has started or asked about, and how it is.
author: The provision authors (!UNKNOWN)
options: {}
"""

from typing import Any  # noqa: E402

from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.training import (  # noqa: E402
    outcome,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.examination import (  # noqa: E402
    Examination,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (  # noqa: E402
    json_copy,
    without_credentials,
)


class CallbackModule(Examination):  # type: ignore[misc]  # ansible has no types
    """Collects what a training's tasks say."""

    CALLBACK_NAME = "provision.gpu.training"
    PLAYBOOK = "train.yml"
    FILE = "training.json"
    VERDICT = "Train | Judge how the job has ended"

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[str, Any] = {}
        self._outcome: dict[str, Any] = {}
        self._refused = ""

    def entry(self, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
        if "asked" in data:
            self._asked = json_copy(data["asked"])
        if "outcome" in data:
            self._outcome = json_copy(data["outcome"])
        return before or {"status": "ok", "message": ""}

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        data = result._result
        if self._active and "outcome" in data:
            self._outcome = json_copy(data["outcome"])
        elif self._active and result._task.action.endswith("gpu_training_plan"):
            # In the name of all hosts, and of none.
            self._refused = without_credentials(str(data.get("msg") or ""))
            self._hosts.setdefault(result._host.get_name(), {"status": "ok", "message": ""})
        else:
            super().v2_runner_on_failed(result, ignore_errors)

    def more(self) -> dict[str, Any]:
        reported = ("action", "job", "script", "hosts", "addresses", "port", "communication")
        asked = {name: self._asked[name] for name in reported if name in self._asked}
        return {"asked": asked, "refused": self._refused, "outcome": self._outcome}

    def unanswered(self) -> dict[str, Any]:
        return {}

    def blamed(self, entry: dict[str, Any]) -> bool:
        return bool(self._outcome) and entry["status"] == "ok"

    def lines(self, report: dict[str, Any]) -> list[str]:
        text: list[str] = outcome.lines(report)
        return text
