#!/usr/bin/python
"""Our lines in users' ~/.bashrc, each written by the user whose file it is."""

DOCUMENTATION = r"""
module: shell_startup
short_description: Put the environment of GPU programs into users' ~/.bashrc, as these users
description:
  - Puts the line that reads C(/etc/profile.d/provision-gpu.sh) between two markers at the top of a
    user's C(~/.bashrc), or takes it out. Everything else in the file stays, and so do its mode and
    its owner; a copy of the old file is kept beside it.
  - Each file is read and written by a process that has become its user for good, within 30 s. What
    is in the way of it is returned, and is no failure.
options:
  users:
    description: Names of users.
    type: list
    elements: str
    required: true
  state:
    description: Whether the lines are wished.
    type: str
    choices: [present, absent]
    default: present
author:
  - The provision authors
"""

EXAMPLES = r"""
- name: Put the environment into ada's shells
  provision.gpu.shell_startup:
    users: [ada]
"""

RETURN = r"""
files:
  description: Files that were changed, or would be in check mode, where links lead.
  type: list
  elements: str
  returned: always
left:
  description: Why a user's file was left alone, by user, as the end of a sentence.
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402  documentation comes first
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_env import (  # noqa: E402
    shell_startup,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import (  # noqa: E402
    Context,
)


def main():
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    present = module.params["state"] == "present"
    answer = shell_startup.write(Context(), module.params["users"], present, module.check_mode)
    # The rest of the file is its user's own, and nobody else reads it.
    block = shell_startup.BLOCK
    before, after = ("", block) if present else (block, "")
    diff = [{"before_header": path, "after_header": path, "before": before, "after": after}
            for path in answer["files"]]  # fmt: skip
    module.exit_json(changed=bool(answer["files"]), diff=diff, **answer)


if __name__ == "__main__":
    main()
