"""Takes cuDNN's archive from the machine that runs Ansible, where the host turns out to need it.

Its checksum is compared before gigabytes travel to every host. What the module is asked and what it
answers is all there is to it otherwise.
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
    # Who runs Ansible chose the file, and the links on its way.
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
    """Runs the module of the same name, and again once it has the file that it lacks."""

    _supports_check_mode = True
    _requires_connection = True

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
            gone = {"path": directory, "state": "absent"}
            self._module("ansible.legacy.file", gone, task_vars)
            return copied
        after = self._module(MODULE, {**arguments, "archive": place}, task_vars)
        after["changed"] = bool(after.get("changed") or result.get("changed"))
        return after

    def _module(self, name: str, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=task_vars
        )
        return found

    def _copy(self, path: str, place: str, task_vars: Any) -> dict[str, Any]:
        """Copies a file of the controller to the host, for root's eyes alone."""
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
        found: dict[str, Any] = action.run(task_vars=task_vars)
        return found
