"""Judges the figures of all hosts of an acceptance together, once a run, on the controller.

A host can't know how fast its like are, or how fast its cards were last week. All answers are in
Ansible's variables by now, and those of former acceptances in the project's report/.
"""

from __future__ import annotations

import json
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import (
    findings,
    words,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance.teaching import (
    history,
    judgement,
    retrial,
)
from ansible_collections.provision.gpu.plugins.plugin_utils import project
from ansible_collections.provision.gpu.plugins.plugin_utils.results import unpacked

# What the playbook registers: the answers, and those of hosts that were asked again.
ANSWER, AGAIN = "gpu_acceptance", "gpu_acceptance_again"


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
        home = project.of_play(task_vars)
        folder = str(home / "report" / history.FOLDER)
        now = time.time()
        earlier = history.read(folder, warnings.append, verdicts)
        judged = judgement.teach(verdicts, earlier, now)
        suspects = [] if options["final"] else judgement.suspects(judged)
        result.update(changed=False, suspects=suspects)
        if not suspects:
            last = {
                name: judgement.apply(entry, judged.get(name, []))
                for name, entry in verdicts.items()
            }
            history.record(folder, last, now, warnings.append)
            # One text: Ansible copies every value of a result several times.
            result["judged"] = json.dumps(judged)
            result["hosts"] = {
                name: {"verdict": verdict["verdict"], "lines": words.faults(verdict)}
                for name, verdict in last.items()
            }
            # Slurm gets every verdict: the one before may have been another.
            result["slurm"] = [name for name in last if _is_node(task_vars, name)]
            blamed = (verdict["verdict"] in findings.BLAMED for verdict in last.values())
            result["well"] = not any(blamed)
        if warnings:
            # The second is for the report: Ansible makes something else of its own.
            result["warnings"] = result["history_warnings"] = warnings
        return result


def _verdicts(task_vars: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{host: its verdict}, of the hosts that answered; the better of two tries."""
    verdicts = {}
    for name in task_vars["ansible_play_hosts"]:
        # Without templating: an answer is data, and there are hundreds of them.
        variables = task_vars["hostvars"].raw_get(name)
        first, second = (_verdict(variables, register) for register in (ANSWER, AGAIN))
        if first is not None:
            verdicts[str(name)] = first if second is None else retrial.merged(first, second)
    return verdicts


def _is_node(task_vars: dict[str, Any], name: str) -> bool:
    """Whether the host said that it is a node of Slurm's."""
    return bool((task_vars["hostvars"].raw_get(name).get(ANSWER) or {}).get("slurm"))


def _verdict(variables: dict[str, Any], register: str) -> dict[str, Any] | None:
    verdict = (variables.get(register) or {}).get("acceptance")
    return unpacked(verdict) if verdict else None
