#!/usr/bin/python
"""Reads what the compiler said of the driver's module."""

DOCUMENTATION = r"""
module: driver_make_log
short_description: Read what the compiler said where DKMS could not build the driver's module
description:
  - Takes the errors out of the latest C(make.log) of a failed build of a version, below
    C(/var/lib/dkms). Changes nothing.
options:
  version:
    description: The driver's version.
    type: str
    required: true
  module:
    description: What DKMS calls the platform's own module.
    type: str
    default: nvidia
extends_documentation_fragment: [provision.gpu.common]
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    make_log,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "module": {"type": "str", "default": "nvidia"},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, words=make_log.words(**module.params))


if __name__ == "__main__":
    main()
