#!/usr/bin/python
"""Tests whether the driver, CUDA's compiler and TensorFlow work: the proof of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_proof
short_description: Test the locked stack with nvidia-smi, nvcc and TensorFlow
description:
  - Starts C(nvidia-smi), C(nvcc) and TensorFlow on the host and compares their output with the
    lock. On real GPUs a matrix product and a convolution are computed on each; a small Keras model
    is fitted on the CPU.
  - Fails at the first wrong answer, with what was expected and the program's output. Each program
    has a time limit. Changes nothing.
  - Normally a task needs no option. The action plugin of the same name takes them from C(gpu_lock),
    C(gpu_plan), C(gpu_left) and the host's variables.
extends_documentation_fragment: [provision.gpu.common]
options:
  stack:
    description: The stack's row of C(gpu_lock.stacks).
    type: dict
    required: true
  left_out:
    description: Components that this run does not prove, by its tags or as absent.
    type: list
    elements: str
    default: []
  gpus:
    description: How many usable GPUs the driver must have.
    type: int
    required: true
  simulated_gpu:
    description: The GPU is simulated, and nothing is computed on it.
    type: bool
    default: false
  options:
    description: C(cuda_profile), C(tensorflow_root) and C(gpu_env_xla_cuda_data_dir) of the host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Prove the locked stack
  provision.gpu.gpu_proof:
"""

RETURN = r"""
asked:
  description: The programs that were started, in their order.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils import proof
from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG, NAMES

ARGUMENTS = {
    "stack": {"type": "dict", "required": True},
    "left_out": NAMES,
    "gpus": {"type": "int", "required": True},
    "simulated_gpu": FLAG,
    "options": {"type": "dict", "required": True},
}


def main() -> None:
    run(ARGUMENTS, proof.settle)


if __name__ == "__main__":
    main()
