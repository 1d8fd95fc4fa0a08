#!/usr/bin/python
"""Finishes what an interrupted dpkg left half way."""

DOCUMENTATION = r"""
module: unfinished_packages
short_description: Finish what an interrupted dpkg left
description:
  - Configures packages that a killed run, a full disk or a power cut left half way, and installs
    what they depend on. None is removed but those of O(ours) that dpkg can only install anew.
  - Fails where somebody else's package cannot be finished, in dpkg's words.
options:
  ours:
    description: Packages that the steps which follow install anyway; they may stay unfinished.
    type: list
    elements: str
    required: true
  tolerated:
    description: Others that may stay unfinished, because they are about to go.
    type: list
    elements: str
    default: []
  kernels:
    description: The packages of kernels and their headers may stay unfinished too. dkms fails them
      where a module cannot be built.
    type: bool
    default: false
extends_documentation_fragment: [provision.gpu.dpkg_wait]
author:
  - The provision authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Finish what an interrupted dpkg left
  provision.gpu.unfinished_packages:
    ours: [libcudart11.0, nvidia-cuda-toolkit]
"""

RETURN = r"""
unfinished:
  description: Whether something was left half way.
  type: bool
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.arguments import WAIT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    unfinished_packages,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.apt_commands import (
    RefusalError,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ours": {"type": "list", "elements": "str", "required": True},
            "tolerated": {"type": "list", "elements": "str", "default": []},
            "kernels": {"type": "bool", "default": False},
            "wait": WAIT,
        },
        supports_check_mode=True,
    )
    params = module.params
    unfinished = unfinished_packages.look()
    if unfinished and not module.check_mode:
        try:
            unfinished_packages.finish(
                set(params["ours"]), set(params["tolerated"]), params["kernels"], params["wait"]
            )
        except RefusalError as error:
            module.fail_json(msg=str(error))
    module.exit_json(changed=unfinished, unfinished=unfinished)


if __name__ == "__main__":
    main()
