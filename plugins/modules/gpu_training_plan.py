#!/usr/bin/python
"""Documents the options and results of `gpu_training_plan`; its action plugin does the work."""

DOCUMENTATION = r"""
module: gpu_training_plan
short_description: Judge a training across the hosts of a play
description:
  - Runs on the controller, once per run, without a connection. Reads the request from the variables
    of the play, and the hosts' answers from what C(train.yml) registers.
extends_documentation_fragment: [provision.gpu.common]
options:
  step:
    description:
      - C(asked) reads script, arguments and addresses, and fails where they can't be used.
      - C(judge) fails where a host, or a way between two of them, does not let the job begin.
      - C(ended) says how the job has ended, and fails where it has not come to its end.
    type: str
    choices: [asked, judge, ended]
    required: true
"""

EXAMPLES = r"""
- name: Check what is asked for
  provision.gpu.gpu_training_plan:
    step: asked
  run_once: true
  register: gpu_training_asked
"""

RETURN = r"""
asked:
  description:
    - The job's name, script, hosts and addresses, and what else was chosen. Of
      C(gpu_train_environment) the names alone, for a value may be a secret.
  type: dict
  returned: with I(step=asked)
outcome:
  description: How the job is, or has ended.
  type: dict
  returned: with I(step=ended)
"""
