#!/usr/bin/python
"""Makes systemd read its manager's settings, where units do not get what these say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: manager_environment
short_description: Apply environment variables for all units of systemd
description:
  - Compares the environment that systemd gives to units with its configuration, and reexecutes the
    manager (C(systemctl daemon-reexec)), which stops no unit, if they differ.
  - Does nothing if systemd does not answer.
extends_documentation_fragment: [provision.gpu.common]
options:
  variables:
    description: Names and values that all units have to get, as pairs.
    type: list
    elements: list
    default: []
  renewed:
    description: Make it read them in any case, as its settings have changed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Make the manager read its settings
  provision.gpu.manager_environment:
    variables: [[XLA_FLAGS, --xla_gpu_cuda_data_dir=/usr/lib/cuda]]
"""

RETURN = r"""
unread:
  description: Names of the variables that units did not get.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    manager_environment,
)

ARGUMENTS = {"variables": {"type": "list", "elements": "list", "default": []}, "renewed": FLAG}


def main() -> None:
    run(ARGUMENTS, manager_environment.settle)


if __name__ == "__main__":
    main()
