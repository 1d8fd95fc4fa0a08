#!/usr/bin/python
"""Says of every GPU of the host whether it is well; a thin shim over `gpu_stack.acceptance`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_acceptance
short_description: Judge every GPU of a host
description:
  - Reads what the PCI bus, the driver's NVML and the kernel's log say of every GPU, and judges it.
    Loads no GPU and changes nothing, in check mode and outside it.
  - Never fails for what it finds. C(acceptance.verdict) says it.
options:
  declared:
    description: How many GPUs the host must have; 0 for as many as its PCI bus shows.
    type: int
    default: 0
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: Ask every GPU
  provision.gpu.gpu_acceptance:
    declared: 4
  register: gpu_acceptance
"""

RETURN = r"""
acceptance:
  description: The verdict on the host and on each of its GPUs, with every check, its reason, its
    evidence and what to do next.
  type: dict
  returned: always
lines:
  description: One line for each fault, which names the GPU by its UUID.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import (
    judge,
    machine,
    words,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import Context


def main() -> None:
    module = AnsibleModule(
        argument_spec={"declared": {"type": "int", "default": 0}}, supports_check_mode=True
    )
    verdict = judge.judge(machine.look(Context()), module.params["declared"])
    module.exit_json(changed=False, acceptance=verdict, lines=words.faults(verdict))


if __name__ == "__main__":
    main()
