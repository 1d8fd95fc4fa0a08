"""The steps of a run in their order, the same for every host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_steps
author: The provision authors (!UNKNOWN)
short_description: The steps of a run in their order
description:
  - Each step is a role's tasks for one component. A host does those that its plan names.
  - The list is the same for every host. Ansible joins what hosts include; of lists that differ it
    would take the order of whichever host answers first.
"""

EXAMPLES = r"""
- ansible.builtin.include_role:
    name: provision.gpu.gpu_state
    tasks_from: step
  loop: "{{ query('provision.gpu.run_steps') }}"
"""

RETURN = r"""
_list:
  description: Name, title, component, role and tasks_from of each step.
  type: list
  elements: dict
"""

from typing import Any  # noqa: E402

from ansible.plugins.lookup import LookupBase  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils.registry import run_steps  # noqa: E402


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible has no types
    """Ansible's way to ask the registry."""

    def run(self, *_terms: Any, **_options: Any) -> list[Any]:
        return list(run_steps())
