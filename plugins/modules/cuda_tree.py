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
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
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

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    REQUIRED_NAMES,
    TEXT,
    WAIT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.cuda import trees

ARGUMENTS = {
    "state": one_of("absent", default="absent"),
    "keep": TEXT,
    "packages": REQUIRED_NAMES,
    "wait": WAIT,
}


def main() -> None:
    run(ARGUMENTS, trees.settle)


if __name__ == "__main__":
    main()
