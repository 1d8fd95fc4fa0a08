#!/usr/bin/python
"""Makes systemd read its manager's settings, where units do not get what these say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: manager_environment
short_description: Make systemd give variables to all units
description:
  - Compares what systemd gives to units with what its settings say, and makes the manager
    execute itself anew (C(systemctl daemon-reexec)), which stops no unit, where they differ.
  - Where no systemd answers there is nothing to do.
options:
  variables:
    description: Names and values that all units have to get, as pairs.
    type: list
    elements: list
    default: []
  renewed:
    description: Make it read them in any case, as its settings have changed.
    type: bool
    default: false
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: Make the manager read its settings
  provision.gpu.manager_environment:
    variables: [[XLA_FLAGS, --xla_gpu_cuda_data_dir=/usr/lib/cuda]]
"""

RETURN = r"""
unread:
  description: Names of the variables that units did not get.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    manager_environment,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import Context


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "variables": {"type": "list", "elements": "list", "default": []},
            "renewed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    context = Context()
    manager = manager_environment.look(context)
    if manager is None:
        module.exit_json(changed=False, unread=[])
    unread = manager_environment.unread(manager, module.params["variables"])
    changed = bool(module.params["renewed"] or unread)
    if changed and not module.check_mode:
        answer = context.run(["systemctl", "daemon-reexec"])
        if answer.rc != 0:
            module.fail_json(msg=f"systemctl daemon-reexec failed: {answer.err.strip()}")
    module.exit_json(changed=changed, unread=unread)


if __name__ == "__main__":
    main()
