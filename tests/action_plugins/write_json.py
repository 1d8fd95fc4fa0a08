"""The tests' own task `write_json`: a value, as JSON, into a file of the controller.

An action without a module: ansible.builtin.copy sends two, which took as long as all the rest of
a play that has one task.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """`path`: the file; `value`: any value, or a text that is JSON already."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Nothing of the value is in the result, which Ansible prints."""
        super().run(tmp, task_vars)
        value = self._task.args["value"]
        text = value if isinstance(value, str) else json.dumps(value)
        path = Path(self._task.args["path"])
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        return {"changed": False}
