"""Passes the proof its arguments: from the lock, both looks and the host's variables."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options

OPTIONS = ("cuda_profile", "tensorflow_root", "gpu_env_xla_cuda_data_dir")


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module of the same name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        return self._execute_module(
            module_name="provision.gpu.gpu_proof",
            module_args=self._from_the_run(task_vars) | dict(self._task.args),
            task_vars=task_vars,
        )

    def _from_the_run(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """The module's arguments where site.yml has registered its looks, else {}."""
        if "gpu_plan" not in task_vars or "gpu_left" not in task_vars:
            return {}
        plan, left = task_vars["gpu_plan"], task_vars["gpu_left"]
        arguments = {
            "stack": task_vars["gpu_lock"]["stacks"][plan["stack"]],
            "left_out": plan["not_selected"] + plan["absent"],
            "gpus": sum(1 for gpu in left["gpus"] if gpu["usable"]),
            "simulated_gpu": left["simulated_gpu"],
            "options": host_options.of_host(self._templar, task_vars, OPTIONS),
        }
        plain: dict[str, Any] = host_options.plain(arguments)
        return plain
