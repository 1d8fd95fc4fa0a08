#!/usr/bin/python
"""Names the kernels that get the driver's module, and the headers it is built with."""

DOCUMENTATION = r"""
module: driver_kernels
short_description: Name the kernels that need the driver's module, and their headers
description:
  - The next kernel to boot and, outside a container, the running one. Changes nothing.
  - Fails where there is none.
options:
  container:
    description: The host is a container, whose running kernel is the machine's that carries it.
    type: bool
    default: false
  platform:
    description: The package of headers that follows the platform's kernel.
    type: str
    required: true
author:
  - The provision authors (!UNKNOWN)
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    module_kernels,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    platform,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.apt_commands import (
    RefusalError,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import (
    Context,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "bool", "default": False},
            "platform": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    context = Context()
    context.platform = platform.look(context)
    context.container = module.params["container"]
    try:
        result = module_kernels.look(context, module.params["platform"])
    except RefusalError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
