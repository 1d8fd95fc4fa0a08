#!/usr/bin/python
"""Checks whether processes use the GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_processes
short_description: Check which processes hold an NVIDIA device file
description:
  - Lists the processes that hold a file C(/dev/nvidia*), without the persistence daemon and
    NVIDIA's monitoring, which lose nothing when the driver changes.
  - Fails where they have been waited for and have not ended. Changes nothing, and does the same in
    check mode. No process is ever ended.
extends_documentation_fragment: [provision.gpu.common]
options:
  before:
    description: What is going to be done, as in C(Not going to reboot).
    type: str
    required: true
  wait:
    description: Seconds that processes are waited for; named in the message.
    type: int
    default: 0
  waited:
    description: Processes have been waited for. Fails while there are any.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse a reboot under programs that use a GPU
  provision.gpu.gpu_processes:
    before: reboot
    waited: true
"""

RETURN = r"""
processes:
  description: Process ID, user and command line of each, by process ID.
  type: list
  elements: dict
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG, REQUIRED_TEXT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import free_gpus

ARGUMENTS = {"before": REQUIRED_TEXT, "wait": {"type": "int", "default": 0}, "waited": FLAG}


def main() -> None:
    run(ARGUMENTS, free_gpus.settle)


if __name__ == "__main__":
    main()
