"""Gives the module the host's options and its place in the cluster; the module of that name acts.

Where a task is delegated, the options are still those of the host that it is done for.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options, slurm_hosts

OPTIONS = tuple(name for name in host_options.DEFAULTS if name.startswith("slurm_"))


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module of the same name."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        options = host_options.of_host(self._templar, task_vars, OPTIONS)
        options["slurm_host"] = slurm_hosts.place(self._templar, task_vars, options)
        return self._execute_module(
            module_name="provision.gpu.slurm",
            module_args={"options": options, **host_options.plain(self._task.args)},
            task_vars=task_vars,
        )
