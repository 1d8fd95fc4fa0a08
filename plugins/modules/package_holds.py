#!/usr/bin/python
"""Holds packages at their versions, or releases them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_holds
short_description: Hold packages at their versions, or release them
description:
  - Runs C(apt-mark) for the packages that are not held yet, or are still held. Holds of other
    packages stay.
  - Holds are read when the task runs, since apt drops the hold of a package that it reinstalls or
    downgrades.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
options:
  names:
    description: Packages to hold or to release.
    type: list
    elements: str
    required: true
  hold:
    description: Hold them. V(false) releases them.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Hold CUDA's libraries
  provision.gpu.package_holds:
    names: [libcudart11.0, libcublas11]
    hold: true
"""

RETURN = r"""
packages:
  description: The packages that were held or released, or would be in check mode.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import REQUIRED_NAMES, WAIT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import apt_commands

ARGUMENTS = {"names": REQUIRED_NAMES, "hold": {"type": "bool", "required": True}, "wait": WAIT}


def main() -> None:
    run(ARGUMENTS, apt_commands.settle_holds)


if __name__ == "__main__":
    main()
