"""Gives the module the host's place in its cluster, and the parts of all hosts of the run.

Where a task is delegated, the options are still those of the host that it is done for.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        arguments = host_options.plain(self._task.args)
        options = host_options.of_host(self._templar, task_vars, OPTIONS)
        options = host_options.typed({**options, **(arguments.get("options") or {})})
        options["slurm_host"] = slurm_hosts.place(self._templar, task_vars, options)
        if arguments.get("state") == "admitted":
            arguments["parts"] = parts(task_vars, options["slurm_controller"])
        return self._execute_module(
            module_name="provision.gpu.slurm",
            module_args={**arguments, "options": options},
            task_vars=task_vars,
        )


def parts(task_vars: Mapping[str, Any], controller: str) -> list[dict[str, Any]]:
    """The part of each host of this play that asked this controller, with its Slurm's release.

    They come from the role's __slurm_asked; a part under another host's name is left out. The first
    host sends all parts to the controller, so that slurmctld is restarted once.
    """
    cluster_parts = []
    for name in task_vars.get("ansible_play_hosts") or []:
        its = task_vars["hostvars"][name]
        asked = its.get("__slurm_asked") or {}
        part = host_options.plain(asked.get("part") or {})
        theirs = slurm_hosts.wish(its, "slurm_controller")
        if part.get("name") == name and theirs == controller:
            cluster_parts.append({**part, "release": str(asked.get("release") or "")})
    return cluster_parts
