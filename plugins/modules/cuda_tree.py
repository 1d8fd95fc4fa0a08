#!/usr/bin/python
"""Removes trees of NVIDIA's CUDA packages that were installed by the role cuda."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_tree
short_description: Remove trees of NVIDIA's CUDA packages that the role cuda installed
description:
  - Finds directories as C(/usr/local/cuda-11.8) with the role's record, removes the packages that
    it names, gives nvcc's diverted profile back and removes what is empty then.
  - Packages that were on the host before the first run stay, as the receipt of the runs has it.
options:
  state:
    description: What is to be of the trees.
    type: str
    choices: [absent]
    default: absent
  keep:
    description: The tree in use, which stays.
    type: str
    default: ""
  packages:
    description: The packages that are wished; they stay.
    type: list
    elements: str
    required: true
  wait:
    description: Seconds to wait for another dpkg.
    type: int
    default: 600
author:
  - The provision authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Remove other trees
  provision.gpu.cuda_tree:
    keep: /usr/local/cuda-11.8
    packages: [cuda-toolkit-11-8]
"""

RETURN = r"""
removed:
  description: The trees that are removed.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402  documentation comes first
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.cuda import (  # noqa: E402
    trees,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["absent"], "default": "absent"},
            "keep": {"type": "str", "default": ""},
            "packages": {"type": "list", "elements": "str", "required": True},
            "wait": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        result = trees.settle(module.params, module.check_mode)
    except trees.RefusalError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
