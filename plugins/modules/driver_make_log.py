#!/usr/bin/python
"""Reads what the compiler said of the driver's module."""

DOCUMENTATION = r"""
module: driver_make_log
short_description: Read the compiler's errors if DKMS could not build the driver's module
description:
  - Returns the errors in the latest C(make.log) of a failed build of a version, below
    C(/var/lib/dkms). Changes nothing.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.dkms_module
  - provision.gpu.driver_version
"""

EXAMPLES = r"""
- name: Read the compiler's output
  provision.gpu.driver_make_log:
    version: 470.256.02
  register: compiler
"""

RETURN = r"""
words:
  description: The compiler's first errors and where the whole output is; empty without a build.
  type: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    DKMS_MODULE,
    REQUIRED_TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    make_log,
)

ARGUMENTS = {"version": REQUIRED_TEXT, "module": DKMS_MODULE}


def main() -> None:
    run(ARGUMENTS, make_log.settle)


if __name__ == "__main__":
    main()
