"""Judges the figures of all hosts of an acceptance together, once a run, on the controller.

A host can't know how fast its like are, or how fast its cards were last week. All answers are in
Ansible's variables by now, and those of former acceptances in the project's report/.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import words
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance.teaching import (
    history,
    judgement,
    retrial,
)
from ansible_collections.provision.gpu.plugins.plugin_utils import project
from ansible_collections.provision.gpu.plugins.plugin_utils.results import plain

# What the playbook registers: the answers, what was first found in them, and the answers of hosts
# that were asked again.
ANSWER, SUSPECTS, AGAIN = "gpu_acceptance", "gpu_suspects", "gpu_acceptance_again"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs nothing on a host. Never fails for what it finds: that would end all hosts."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {"final": {"type": "bool", "default": True}}
        )
        task_vars = task_vars or {}
        warnings: list[str] = []
        verdicts = _verdicts(task_vars)
        folder = str(_home(task_vars) / "report" / history.FOLDER)
        now = time.time()
        judged = _settled(task_vars) if options["final"] else None
        if judged is None:
            earlier = history.read(folder, warnings.append, verdicts)
            judged = judgement.teach(verdicts, earlier, now)
        result["changed"] = False
        if options["final"]:
            last = {
                name: judgement.apply(entry, judged.get(name, []))
                for name, entry in verdicts.items()
            }
            history.record(folder, last, now, warnings.append)
            result["judged"] = judged
            result["hosts"] = {
                name: {"verdict": verdict["verdict"], "lines": words.faults(verdict)}
                for name, verdict in last.items()
            }
        else:
            result["suspects"] = judgement.suspects(judged)
            if not result["suspects"]:
                result["settled"] = judged
        if warnings:
            # The second is for the report: Ansible makes something else of its own.
            result["warnings"] = result["history_warnings"] = warnings
        return result


def _home(task_vars: dict[str, Any]) -> Path:
    return project.carrier() or Path(str(task_vars.get("playbook_dir") or "."))


def _verdicts(task_vars: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{host: its verdict}, of the hosts that answered; the better of two tries."""
    found = {}
    for name in task_vars["ansible_play_hosts"]:
        # Without templating: an answer is data, and there are hundreds of them.
        known = task_vars["hostvars"].raw_get(name)
        first, second = (_verdict(known, register) for register in (ANSWER, AGAIN))
        if first is not None:
            found[str(name)] = first if second is None else retrial.merged(first, second)
    return found


def _settled(task_vars: dict[str, Any]) -> dict[str, Any] | None:
    """What was first judged, where no host was asked again: the history of many hosts is long."""
    name = next(iter(task_vars["ansible_play_hosts"]))
    settled = (task_vars["hostvars"].raw_get(name).get(SUSPECTS) or {}).get("settled")
    return None if settled is None else plain(settled)


def _verdict(known: dict[str, Any], register: str) -> dict[str, Any] | None:
    verdict = (known.get(register) or {}).get("acceptance")
    return plain(verdict) if verdict else None
