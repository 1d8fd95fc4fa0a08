"""Renders the templates of files that a role has whole; the module of the same name writes them.

It also names the files of a component that are to go: the module stays small, for several tasks of
each role send it to the hosts.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.provision.gpu.plugins.plugin_utils.host_options import plain

MODULE = "provision.gpu.managed_files"


def _owned(arguments: dict[str, Any]) -> list[dict[str, str]]:
    """What the files of the task's component are, which the module finds on the host."""
    if not arguments.get("component"):
        return []
    # Not at the top: it reads all components, and most tasks take nothing away.
    from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack import removal

    rows: list[dict[str, str]] = removal.files(arguments["component"], arguments.get("part") or "")
    return rows


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Runs the module with texts in place of templates."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        arguments = plain(self._task.args)
        absent = arguments.get("state") == "absent"
        arguments["files"] = [
            self._rendered(file, absent, task_vars or {}) for file in arguments.get("files") or []
        ]
        # Always set here: nothing else says what is a component's own.
        arguments["owned"] = _owned(arguments) if absent else []
        return self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)

    def _rendered(
        self, file: dict[str, Any], absent: bool, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """The file with its content.

        What is to be absent may have no values any more to render it with, which is no fault where
        it is not there.
        """
        source = file.get("src")
        if not source or not boolean(file.get("wanted", True), strict=False):
            return file
        try:
            return {**file, "content": self._text(source, task_vars)}
        except AnsibleError as error:
            if not absent:
                raise
            return {**file, "unrendered": str(error)}

    def _text(self, source: str, task_vars: dict[str, Any]) -> str:
        lookup = lookup_loader.get(
            "ansible.builtin.template", loader=self._loader, templar=self._templar
        )
        (text,) = lookup.run([source], variables=task_vars)
        return "" if text is None else "".join(str(text))
