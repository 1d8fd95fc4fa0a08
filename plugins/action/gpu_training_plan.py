"""Judges a training across hosts on the controller: what is asked, what hosts say, how it ended."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.training import judge, outcome
from ansible_collections.provision.gpu.plugins.plugin_utils import training
from ansible_collections.provision.gpu.plugins.plugin_utils.host_options import plain
from ansible_collections.provision.gpu.plugins.plugin_utils.results import json_copy

# Each host's own; the others are the play's.
OF_HOST = ("gpu_stack", "gpu_train_address", "ansible_host")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs nothing on a host."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {"step": {"type": "str", "choices": ["asked", "judge", "ended"], "required": True}}
        )
        task_vars = task_vars or {}
        names = [str(name) for name in task_vars["ansible_play_hosts_all"]]
        step = options["step"]
        result["changed"] = False
        if step == "asked":
            result["asked"] = self._asked(task_vars, names)
        elif step == "judge":
            self._judge(task_vars, names)
        else:
            result["outcome"] = ended = self._ended(task_vars, names)
            if ended["state"] in outcome.BROKEN:
                result.update(failed=True, msg=ended["words"])
        return result

    def _asked(self, task_vars: dict[str, Any], names: list[str]) -> dict[str, Any]:
        variables = {
            name: plain(self._templar.template(value))
            for name, value in task_vars.items()
            if name.startswith("gpu_train") or name in ("gpu_accept_in_use", "playbook_dir")
        }
        hosts = [
            {
                name: plain(task_vars["hostvars"][host][name])
                for name in OF_HOST
                if name in task_vars["hostvars"][host]
            }
            for host in names
        ]
        try:
            plan = training.asked(variables, hosts, names, time.time())
        except training.AskedError as error:
            raise AnsibleActionFail(str(error)) from None
        training.say({"event": "job", "job": plan["job"], "action": plan["action"]})
        return {**plan, "token": os.urandom(8).hex()}

    def _judge(self, task_vars: dict[str, Any], names: list[str]) -> None:
        plan = json_copy(task_vars["gpu_training_asked"]["asked"])
        looks = training.looks(task_vars, names)
        faults = judge.looks(looks, plan["gpus"], plan["in_use"], plan["resume"])
        if not faults:
            faults = judge.reached(training.answers(task_vars, names, "gpu_training_reach"))
        if faults:
            raise AnsibleActionFail("nothing was started:\n" + "\n".join(faults))
        words = judge.clocks(looks)
        if words:
            training.say({"event": "note", "text": words})
            self._display.warning(words)

    def _ended(self, task_vars: dict[str, Any], names: list[str]) -> dict[str, Any]:
        plan = json_copy(task_vars["gpu_training_asked"]["asked"])
        for register in ("gpu_training_followed", "gpu_training_status", "gpu_training_stopped"):
            answers = training.answers(task_vars, names, register)
            if answers:
                break
        else:
            register = "gpu_training_started"
        ended: dict[str, Any] = outcome.of(plan, register.rpartition("_")[2], answers)
        return ended
