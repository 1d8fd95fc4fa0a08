#!/usr/bin/python
"""Looks for a driver that came from another source than the wish's, and refuses to mix the two."""

DOCUMENTATION = r"""
module: other_driver
short_description: Look for a driver from another source, which must be removed first
description:
  - Compares dpkg's records, the role's own pins and the uninstaller of NVIDIA's C(.run) file with
    O(source). Changes nothing.
  - Fails if there is another driver and O(switch) does not allow its removal.
extends_documentation_fragment: [provision.gpu.common]
options:
  source:
    description: Where the driver is to come from.
    type: str
    choices: [distribution, network, runfile]
    required: true
  parts:
    description: All packages that the lock has for the driver.
    type: list
    elements: str
    default: []
  switch:
    description: V(switch) lets the run remove another driver.
    type: str
    default: refuse
"""

EXAMPLES = r"""
- name: Look for another driver
  provision.gpu.other_driver:
    source: distribution
    parts: [libcuda1, nvidia-smi]
  register: other
"""

RETURN = r"""
came:
  description: The source that the role's pins record; empty without such pins.
  type: str
  returned: success
packages:
  description: Packages of another driver, which are removed first.
  type: list
  elements: str
  returned: success
branch:
  description: Packages of another branch from the same source, which go in one transaction with
    the new ones.
  type: list
  elements: str
  returned: success
runfile:
  description: Whether a driver of NVIDIA's C(.run) file is removed first.
  type: bool
  returned: success
source:
  description: Whether the packages came from another repository than O(source).
  type: bool
  returned: success
here:
  description: Whether anything of another driver goes first.
  type: bool
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import NAMES
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    other_driver,
)

ARGUMENTS = {
    "source": {
        "type": "str",
        "choices": ["distribution", "network", "runfile"],
        "required": True,
    },
    "parts": NAMES,
    "switch": {"type": "str", "default": "refuse"},
}


def main() -> None:
    run(ARGUMENTS, other_driver.settle)


if __name__ == "__main__":
    main()
