#!/usr/bin/python
"""Installs the kernel modules that the distribution built and signed."""

DOCUMENTATION = r"""
module: driver_signed_module
short_description: Install the driver's signed kernel module for the kernels that lack it
description:
  - Asks C(modinfo) for the module that each of O(kernels) would load, and installs the package of
    signed modules for each kernel that has none of O(version).
  - Installs the newest package for that kernel in apt's lists with O(version).
  - Under Secure Boot the task fails if a kernel would reject its module, and names the signer.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.dpkg_wait
  - provision.gpu.driver_version
options:
  kernels:
    description: Releases of the kernels.
    type: list
    elements: str
    required: true
  packages:
    description: The locked packages of signed modules, which have the branch in their names.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Take the modules that Canonical signed
  provision.gpu.driver_signed_module:
    version: 470.256.02
    kernels: [6.8.0-79-generic]
    packages: [linux-modules-nvidia-470-server-generic]
"""

RETURN = r"""
packages:
  description: What was installed, or would be.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    REQUIRED_NAMES,
    REQUIRED_TEXT,
    WAIT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    built_install,
)

REQUIRED = REQUIRED_NAMES
ARGUMENTS = {"version": REQUIRED_TEXT, "kernels": REQUIRED, "packages": REQUIRED, "wait": WAIT}


def main() -> None:
    run(ARGUMENTS, built_install.settle)


if __name__ == "__main__":
    main()
