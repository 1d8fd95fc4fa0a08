"""Writes report/acceptance.json at the end of accept.yml, or of a run that asked for it."""

from __future__ import annotations

DOCUMENTATION = """
name: acceptance
type: aggregate
short_description: Writes report/acceptance.json
description:
  - Records the verdict of accept.yml on every host and each of its GPUs.
author: The provision authors (!UNKNOWN)
options: {}
"""

import time  # noqa: E402
from typing import Any  # noqa: E402

from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import (  # noqa: E402
    findings,
    words,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance.teaching import (  # noqa: E402
    judgement,
    retrial,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.examination import (  # noqa: E402
    Examination,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.project import (  # noqa: E402
    read_lock,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.record import utc  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (  # noqa: E402
    json_copy,
    unpacked,
)


class CallbackModule(Examination):  # type: ignore[misc]  # ansible has no types
    """Collects the verdicts of every host."""

    CALLBACK_NAME = "provision.gpu.acceptance"
    PLAYBOOK = "accept.yml"
    PLAY = "Acceptance"
    FILE = "acceptance.json"
    VERDICT = "Accept | Refuse a host that is not well"
    # `failed` is a verdict.
    BROKEN = "error"

    def __init__(self) -> None:
        super().__init__()
        self._warnings: list[str] = []

    def v2_runner_on_ok(self, result: Any) -> None:
        data = result._result
        if self._active:
            self._judge(unpacked(data.get("judged") or {}))
            self._warnings += json_copy(data.get("history_warnings") or [])
            # What Slurm did with a node, or why it did nothing.
            if data.get("node") and data.get("said"):
                self._warnings.append(
                    f"{result._host.get_name()}: Slurm: {json_copy(data['said'])}"
                )
        super().v2_runner_on_ok(result)

    def _judge(self, judged: dict[str, Any]) -> None:
        """Merges the findings of gpu_acceptance_judge into the hosts' verdicts."""
        for name in judged:
            entry = self._hosts.get(name)
            if entry is not None and entry["acceptance"] is not None:
                verdict = judgement.apply(entry["acceptance"], judged[name])
                status = entry["status"] if entry["message"] else verdict["verdict"]
                self._hosts[name] = {**entry, "status": status, "acceptance": verdict}

    def entry(self, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
        if "acceptance" not in data:
            return None
        verdict = unpacked(data["acceptance"])
        if before.get("acceptance"):
            verdict = retrial.merged(before["acceptance"], verdict)
        return {"status": verdict["verdict"], "message": "", "acceptance": verdict}

    def more(self) -> dict[str, Any]:
        """When this was, and for which lock: evidence is made of it later."""
        digest = read_lock(self._project / "stacks" / "gpu_lock.yml").get("digest")
        about = {"finished": utc(time.time()), "lock_digest": digest}
        return {**about, "warnings": self._warnings} if self._warnings else about

    def unanswered(self) -> dict[str, Any]:
        return {"acceptance": None}

    def blamed(self, entry: dict[str, Any]) -> bool:
        return entry["status"] in findings.BLAMED

    def lines(self, report: dict[str, Any]) -> list[str]:
        lines = [line for name, host in report["hosts"].items() for line in words.host(name, host)]
        return lines + ["warning: " + text for text in report.get("warnings") or ()]
