#!/usr/bin/python
"""Says of every GPU of the host whether it is well; a thin shim over `gpu_stack.acceptance`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_acceptance
short_description: Judge every GPU of a host
description:
  - Reads the state of every GPU from the PCI bus, the driver's NVML and the kernel's log, and
    judges it. Changes nothing, in check mode and outside it.
  - With C(level=quick) no GPU is loaded. With a higher level TensorFlow computes on every GPU that
    is not in use, in the host's own environment and without root's privileges.
  - A bad GPU does not fail the task. The result is in C(acceptance.verdict).
options:
  declared:
    description: How many GPUs the host must have; 0 for as many as its PCI bus shows.
    type: int
    default: 0
  models:
    description: The models of GPU that the host must have, as the PCI device ids that each word of
      I(gpu_models) can mean. Empty for any. Normally set by the action plugin, from the inventory
      and the project's lock.
    type: dict
    default: {}
  level:
    description: How thoroughly the GPUs are tested. In check mode always C(quick).
    type: str
    choices: [quick, normal, long]
    default: quick
  minutes:
    description: How long the burn-in of C(level=long) takes.
    type: float
    default: 60
  in_use:
    description:
      - What is loaded if a GPU of the host is in use. With C(others) every other GPU and the disk,
        with C(nothing) no GPU and not the disk.
    type: str
    choices: [others, nothing]
    default: others
  patience:
    description: Minutes after which no further program is started, except the burn-in of
      C(level=long). Checks that were left out then say so, and don't pass.
    type: float
    default: 8
  data_path:
    description: The folder in which a file is written and read back above C(level=quick), such as
      the one of your training data. Empty for C(/var/tmp). No part of it may be a symlink.
    type: str
    default: ""
  programs:
    description: The programs that TensorFlow runs, by their file names. Normally sent by the action
      plugin, which also sets I(python) and I(variables).
    type: dict
    default: {}
  python:
    description: The Python of TensorFlow's environment.
    type: path
    default: /opt/tensorflow/current/bin/python
  variables:
    description: The file with the environment variables of GPU programs.
    type: path
    default: /etc/provision/gpu.env
  packed:
    description: Return C(acceptance) as one text of JSON. Ansible copies every value of every
      host's result several times, and a host with eight GPUs has thousands.
    type: bool
    default: false
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
    evidence and what to do next; a text with I(packed).
  type: raw
  returned: always
lines:
  description: One line for each fault, which names the GPU by its UUID.
  type: list
  elements: str
  returned: always
slurm:
  description: Whether the host is a node of Slurm's, which then gets the verdict.
  type: bool
  returned: always
"""

import functools
import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance import (
    judge,
    levels,
    machine,
    storage,
    words,
    work,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance.runner import (
    Runner,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import gpu_shares
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import Context


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "declared": {"type": "int", "default": 0},
            "models": {"type": "dict", "default": {}},
            "level": {"type": "str", "choices": list(levels.LEVELS), "default": levels.QUICK},
            "minutes": {"type": "float", "default": 60},
            "in_use": {"type": "str", "choices": list(levels.IN_USE), "default": levels.OTHERS},
            "patience": {"type": "float", "default": levels.PATIENCE},
            "data_path": {"type": "str", "default": ""},
            "programs": {"type": "dict", "default": {}},
            "python": {"type": "path", "default": "/opt/tensorflow/current/bin/python"},
            "variables": {"type": "path", "default": "/etc/provision/gpu.env"},
            "packed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    context = Context()
    facts = machine.look(context)
    level = module.params["level"]
    if level != levels.QUICK and not module.check_mode:
        given = (module.params[name] for name in ("programs", "python", "variables"))
        runner = Runner(context, *given)
        nothing = module.params["in_use"] == levels.NOTHING
        done = work.look(
            facts,
            level,
            runner,
            module.params["minutes"],
            functools.partial(machine.taken, context),
            strangers=functools.partial(machine.strangers, context) if nothing else None,
            free=machine.free,
            patience=module.params["patience"],
            disk=functools.partial(storage.measure, module.params["data_path"]),
        )
        # What the load has brought to light: a card that is lost, an Xid, heat.
        facts = dict(machine.look(context), work=done)
    verdict = judge.judge(facts, module.params["declared"], module.params["models"])
    answer = json.dumps(verdict) if module.params["packed"] else verdict
    slurm = context.exists(gpu_shares.NODE)
    module.exit_json(changed=False, acceptance=answer, lines=words.faults(verdict), slurm=slurm)


if __name__ == "__main__":
    main()
