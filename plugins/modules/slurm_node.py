#!/usr/bin/python
"""Drains a node of Slurm's, or takes it back: a thin shim."""

DOCUMENTATION = r"""
module: slurm_node
short_description: Drain a node of Slurm with a reason, or resume it
description:
  - Drains or resumes the node by an acceptance's verdict, or because a run needs it. Does nothing
    on a host that is not a node of the role C(slurm).
  - A node that was drained by somebody else stays drained. No job is ended.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(judged) drains the node where I(verdict) is C(failed). For another verdict it takes the
        node back where an acceptance of this I(level) or a lower one had drained it.
      - C(drained) keeps new jobs off, for I(reason), and says which are there. The drain is noted
        on the host.
      - C(left) says which jobs are there, and changes nothing.
      - C(resumed) takes the node back where a run has drained it, also one that was killed.
      - C(installed) writes the programs that slurmd calls, and what they know of I(part).
    type: str
    choices: [judged, drained, left, resumed, installed]
    required: true
  verdict:
    description: The acceptance's verdict on the host.
    type: str
    default: ""
  level:
    description:
      - The level of that acceptance. It is put into the reason, and the node is taken back only by
        a verdict C(ok) or C(degraded) of this level or a higher one.
    type: str
    choices: [quick, normal, long]
    default: quick
  reason:
    description: Why, as people read it in C(sinfo -R).
    type: str
    default: ""
  part:
    description: The node's name in Slurm and its GPUs in the order of gres.conf, as
      C({name, gpus}); needed with C(installed).
    type: dict
    default: {}
  shipped:
    description:
      - "The role's own files by their names, C({name: text}); needed with C(installed)."
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Keep new jobs off
  provision.gpu.slurm_node:
    state: drained
    reason: the driver is changed

- name: Take the node back
  provision.gpu.slurm_node:
    state: resumed
"""

RETURN = r"""
node:
  description: The node's name in Slurm; empty on a host that is none.
  type: str
  returned: success
jobs:
  description: Which jobs are on the node, whose, and until when at most.
  type: list
  elements: str
  returned: success
said:
  description: What was done, or why it was not.
  type: str
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    MAPPING,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.acceptance.levels import (
    LEVELS,
    QUICK,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.slurm import drain

ARGUMENTS = {
    "state": one_of("judged", "drained", "left", "resumed", "installed"),
    "verdict": TEXT,
    "level": one_of(*LEVELS, default=QUICK),
    "reason": TEXT,
    "part": MAPPING,
    # No secret: pages of text, which nobody wants in the journal and in every result.
    "shipped": {"type": "dict", "default": {}, "no_log": True},
}


def main() -> None:
    run(ARGUMENTS, drain.settle, OSError)


if __name__ == "__main__":
    main()
