"""Writes report/acceptance.json at the end of accept.yml, and shows it on the terminal."""

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
from ansible_collections.provision.gpu.plugins.plugin_utils.examination import (  # noqa: E402
    Examination,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.project import (  # noqa: E402
    read_lock,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.record import utc  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.results import plain  # noqa: E402


class CallbackModule(Examination):  # type: ignore[misc]  # ansible has no types
    """Collects the verdicts of every host."""

    CALLBACK_NAME = "provision.gpu.acceptance"
    PLAYBOOK = "accept.yml"
    FILE = "acceptance.json"
    VERDICT = "Accept | Refuse a host that is not well"
    # `failed` is a verdict.
    BROKEN = "error"

    def entry(self, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG002
        if "acceptance" not in data:
            return None
        verdict = plain(data["acceptance"])
        return {"status": verdict["verdict"], "message": "", "acceptance": verdict}

    def more(self) -> dict[str, Any]:
        """When this was, and for which lock: evidence is made of it later."""
        digest = read_lock(self._project / "stacks" / "gpu_lock.yml").get("digest")
        return {"finished": utc(time.time()), "lock_digest": digest}

    def unanswered(self) -> dict[str, Any]:
        return {"acceptance": None}

    def blamed(self, entry: dict[str, Any]) -> bool:
        return entry["status"] in findings.BLAMED

    def lines(self, report: dict[str, Any]) -> list[str]:
        return [line for name, host in report["hosts"].items() for line in words.host(name, host)]
