"""Copies cuDNN's archive from the machine that runs Ansible to hosts that need it.

Its checksum is compared before gigabytes travel to every host. Everything else is the module's
work.
"""

from __future__ import annotations

import os
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.path import unfrackpath
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.cudnn import (
    archive,
)

MODULE = "provision.gpu.cudnn_archive"


def refusal(path: str, sha256: str) -> str | None:
    """Why this file of the controller is not the archive; None if it is."""
    # Whoever runs Ansible chose the file, so links on its way are followed.
    real = os.path.realpath(path)
    if not os.path.exists(real):
        return (
            f"cudnn_controller_file is {path}, but the machine that runs Ansible has no such file."
        )
    try:
        archive.check(real, sha256)
    except archive.RefusalError as error:
        return f"cudnn_controller_file: {str(error).replace(real, path)}. The host is as it was."
    return None


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module of the same name; where it lacks the archive, copies it and runs it again."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        result = self._module(MODULE, arguments, task_vars)
        place = result.pop("archive_needed", None)
        if place is None:
            return result
        path: str = unfrackpath(arguments["controller_file"], follow=False)
        fault = refusal(path, arguments["sha256"])
        copied = {"failed": True, "msg": fault} if fault else self._copy(path, place, task_vars)
        if copied.get("failed"):
            directory = os.path.dirname(place)
            absent = {"path": directory, "state": "absent"}
            self._module("ansible.legacy.file", absent, task_vars)
            return copied
        unpacked = self._module(MODULE, {**arguments, "archive": place}, task_vars)
        unpacked["changed"] = bool(unpacked.get("changed") or result.get("changed"))
        return unpacked

    def _module(self, name: str, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=task_vars
        )
        return result

    def _copy(self, path: str, place: str, task_vars: Any) -> dict[str, Any]:
        """Copies a file of the controller to the host, readable for root alone."""
        task = self._task.copy()
        task.args = {"src": path, "dest": place, "mode": "0600"}
        action = self._shared_loader_obj.action_loader.get(
            "ansible.legacy.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result: dict[str, Any] = action.run(task_vars=task_vars)
        return result
