#!/usr/bin/python
"""Finishes what an interrupted dpkg left half way."""

DOCUMENTATION = r"""
module: unfinished_packages
short_description: Finish packages that an interrupted dpkg left half installed
description:
  - Configures packages that a killed run, a full disk or a power cut left half installed, and
    installs their dependencies. Removes only packages of O(ours), if dpkg can't repair them
    otherwise.
  - Fails with dpkg's message if another package can't be finished.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
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

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    NAMES,
    REQUIRED_NAMES,
    WAIT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    unfinished_packages,
)

ARGUMENTS = {"ours": REQUIRED_NAMES, "tolerated": NAMES, "kernels": FLAG, "wait": WAIT}


def main() -> None:
    run(ARGUMENTS, unfinished_packages.settle)


if __name__ == "__main__":
    main()
