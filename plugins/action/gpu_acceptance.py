"""Passes the acceptance its arguments: the host's options, and the programs that load GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import levels
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components import (
    gpu_env,
    tensorflow,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import gpu_models
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options, project

PROGRAMS = Path(__file__).resolve().parents[2] / "playbooks/files/acceptance/programs"
OPTIONS = ("tensorflow_root", "gpu_models")


def programs() -> dict[str, str]:
    """{file name: text} of the programs that TensorFlow runs on a host."""
    return {path.name: path.read_text("utf-8") for path in sorted(PROGRAMS.glob("*.py"))}


def _models(task_vars: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """{word of gpu_models: PCI device ids}, by the project's lock, which is read only for words."""
    if not words:
        return {}
    folder = project.of_play(task_vars)
    lock = project.read_lock(folder / project.STACKS / "gpu_lock.yml")
    named: dict[str, Any] = gpu_models.named(lock, words)
    return named


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module of the same name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        options = host_options.of_host(self._templar, task_vars, OPTIONS)
        arguments = {"models": _models(task_vars, options["gpu_models"]), **self._task.args}
        if arguments.get("level", levels.QUICK) != levels.QUICK:
            arguments = {
                "programs": programs(),
                "python": tensorflow.root_of(options) + "/current/bin/python",
                "variables": gpu_env.UNITS,
                **arguments,
            }
        return self._execute_module(
            module_name="provision.gpu.gpu_acceptance", module_args=arguments, task_vars=task_vars
        )
