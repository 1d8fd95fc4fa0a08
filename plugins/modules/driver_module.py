#!/usr/bin/python
"""Builds the driver's kernel module by DKMS, and takes those of other drivers out of DKMS."""

DOCUMENTATION = r"""
module: driver_module
short_description: Build the driver's kernel module for the kernels that lack it
description:
  - Asks C(modinfo) for the module that each of O(kernels) would load, and has DKMS build and
    install it if that is not of O(version). Versions of other drivers are removed from DKMS.
  - Fails with the compiler's error if the module can't be built.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.dkms_module
  - provision.gpu.driver_version
options:
  kernels:
    description: Releases of the kernels to build for.
    type: list
    elements: str
    required: true
  platforms_own:
    description: The module's name in DKMS where the platform's packages bring it. Otherwise the
      name is read from the sources below C(/usr/src).
    type: str
    default: ""
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
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    DKMS_MODULE,
    REQUIRED_NAMES,
    REQUIRED_TEXT,
    TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    dkms,
)

ARGUMENTS = {
    "version": REQUIRED_TEXT,
    "kernels": REQUIRED_NAMES,
    "platforms_own": TEXT,
    "module": DKMS_MODULE,
}


def main() -> None:
    run(ARGUMENTS, dkms.settle)


if __name__ == "__main__":
    main()
