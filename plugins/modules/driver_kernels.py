#!/usr/bin/python
"""Names the kernels that get the driver's module, and the headers it is built with."""

DOCUMENTATION = r"""
module: driver_kernels
short_description: Name the kernels that need the driver's module, and their headers
description:
  - The next kernel to boot and, outside a container, the running one. Changes nothing.
  - Fails if there is none.
extends_documentation_fragment: [provision.gpu.common]
options:
  container:
    description: The host is a container, whose running kernel is the machine's that carries it.
    type: bool
    default: false
  platform:
    description: Metapackage of headers for the platform's kernel.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Find the kernels to build for
  provision.gpu.driver_kernels:
    platform: linux-headers-amd64
  register: built_for
"""

RETURN = r"""
kernels:
  description: The releases of the kernels.
  type: list
  elements: str
  returned: success
headers:
  description: Packages of headers, as the option of M(provision.gpu.driver_packages).
  type: dict
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG, REQUIRED_TEXT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    module_kernels,
)

ARGUMENTS = {"container": FLAG, "platform": REQUIRED_TEXT}


def main() -> None:
    run(ARGUMENTS, module_kernels.settle)


if __name__ == "__main__":
    main()
