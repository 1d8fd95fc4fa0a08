#!/usr/bin/python
"""Builds the driver's kernel module by DKMS, and takes those of other drivers out of DKMS."""

DOCUMENTATION = r"""
module: driver_module
short_description: Build the driver's kernel module for the kernels that lack it
description:
  - Asks C(modinfo) for the module that each of O(kernels) would load, and has DKMS build and
    install it where it is not of O(version). Versions of other drivers are removed from DKMS.
  - Fails with the compiler's line where the module cannot be built.
options:
  version:
    description: The driver's version.
    type: str
    required: true
  kernels:
    description: Releases of the kernels to build for.
    type: list
    elements: str
    required: true
  platforms_own:
    description: What DKMS calls the module, where it comes in the platform's packages. Else the
      sources below C(/usr/src) tell.
    type: str
    default: ""
  module:
    description: A further name below which to look for the compiler's output.
    type: str
    default: nvidia
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: Build the module
  provision.gpu.driver_module:
    version: 470.256.02
    kernels: [5.10.0-32-amd64]
    platforms_own: nvidia-current
"""

RETURN = r"""
built:
  description: The kernels for which it was built, or would be.
  type: list
  elements: str
  returned: always
removed:
  description: Modules of other drivers that were removed, or would be, as C(name/version).
  type: list
  elements: str
  returned: always
msg:
  description: What would be done.
  type: str
  returned: in check mode, where something is to build
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    dkms,
)

ARGUMENTS = {
    "version": {"type": "str", "required": True},
    "kernels": {"type": "list", "elements": "str", "required": True},
    "platforms_own": {"type": "str", "default": ""},
    "module": {"type": "str", "default": "nvidia"},
}


def main() -> None:
    run(ARGUMENTS, dkms.settle)


if __name__ == "__main__":
    main()
