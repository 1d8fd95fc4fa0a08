#!/usr/bin/python
"""Loads the driver's module, or says why it takes a reboot or a person."""

DOCUMENTATION = r"""
module: driver_loaded
short_description: Load the driver's kernel module, and report if it takes a reboot
description:
  - A reboot is needed if nouveau is loaded, or a module of another version than the installed one.
    It is done once for each of these causes; if it did not help, the task fails with the kernel's
    messages.
  - If the kernel rejects the module, the task fails with the kernel's message and what to do.
  - Loads nothing if there is no NVIDIA GPU on the PCI bus.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description: V(loaded) loads the module. V(rebooting) notes the reboot that is to come, so that
      the same one is not done twice. V(without_nouveau) takes nouveau out of the kernel.
    type: str
    choices: [loaded, rebooting, without_nouveau]
    default: loaded
  version:
    description: The version of the driver that is installed.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Load the module
  provision.gpu.driver_loaded:
    version: 470.256.02
  register: running
"""

RETURN = r"""
reason:
  description: Why it takes a reboot; empty where it takes none.
  type: str
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import REQUIRED_TEXT, one_of
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    kernel_load,
)

ARGUMENTS = {
    "state": one_of("loaded", "rebooting", "without_nouveau", default="loaded"),
    "version": REQUIRED_TEXT,
}


def main() -> None:
    run(ARGUMENTS, kernel_load.settle)


if __name__ == "__main__":
    main()
