#!/usr/bin/python
"""Says whether the host is a container, by the rule of the plan."""

DOCUMENTATION = r"""
module: driver_surroundings
short_description: Report whether the host is a container
description:
  - A container runs on its machine's kernel, and can't load a module into it. Changes nothing.
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: See whether this is a container
  provision.gpu.driver_surroundings:
  register: surroundings
"""

RETURN = r"""
container:
  description: Whether it is one.
  type: bool
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import Context
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.platform import container


def main() -> None:
    run({}, lambda _params, _check_mode: {"changed": False, "container": container(Context())})


if __name__ == "__main__":
    main()
