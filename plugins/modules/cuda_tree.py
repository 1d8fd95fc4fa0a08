#!/usr/bin/python
"""Puts a tree of NVIDIA's CUDA packages in use, or removes those that the role cuda installed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_tree
short_description: Activate a tree of NVIDIA's CUDA packages, or remove those of the role cuda
description:
  - With V(present) records in the tree O(keep) which packages are the role's, points
    C(/usr/local/cuda) to it by update-alternatives, and returns the compiler that nvcc would use.
  - With V(absent) finds directories like C(/usr/local/cuda-11.8) with the role's record, removes
    the packages that it names, restores nvcc's diverted profile and removes empty directories.
    Packages that were on the host before the first run, according to the receipt, stay.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
options:
  state:
    description: What is to be of the trees.
    type: str
    choices: [absent, present]
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
  priority:
    description: That of the tree among others, with V(present).
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Put CUDA 11.8 in use
  provision.gpu.cuda_tree:
    state: present
    keep: /usr/local/cuda-11.8
    packages: [cuda-toolkit-11-8]
    priority: 118

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
  returned: with C(state=absent)
gcc:
  description: The version of the platform's gcc; empty where there is none.
  type: str
  returned: with C(state=present)
host_compiler:
  description: The major version of the gcc that nvcc's profile names; 0 without one.
  type: int
  returned: with C(state=present)
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
    "state": one_of("absent", "present", default="absent"),
    "keep": TEXT,
    "packages": REQUIRED_NAMES,
    "priority": {"type": "int", "default": 0},
    "wait": WAIT,
}


def main() -> None:
    run(ARGUMENTS, trees.settle, OSError, required_if=[("state", "present", ("keep",))])


if __name__ == "__main__":
    main()
