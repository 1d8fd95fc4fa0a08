#!/usr/bin/python
"""Slurm on a host of a cluster: a thin shim."""

DOCUMENTATION = r"""
module: slurm
short_description: Configure and check a controller and nodes of Slurm
description:
  - Each state is one step of the role C(slurm), on the host itself or, if it changes the cluster,
    on its controller.
  - The cluster's munge key is encrypted for the node that requested it.
  - Jobs keep running while slurmctld and slurmd are restarted. The task fails if a change would end
    one.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(looked) changes nothing and says what the host needs. C(begun) notes which packages were
        not there before.
      - C(controls) brings the controller. C(asked) says what a node has and shows a certificate,
        C(admitted) takes that on the controller and seals the key, C(joined) makes the host a node.
      - C(proven) asks whether the node takes jobs, and runs one.
      - C(dismissed) forgets a node on its controller, C(absent) takes Slurm off the host,
        C(forgotten) the records of it.
    type: str
    choices:
      [looked, begun, controls, asked, admitted, joined, proven, dismissed, absent, forgotten]
    required: true
  options:
    description: The host's options and its place in the inventory; the action plugin fills it.
    type: dict
    default: {}
  packages:
    description: With C(begun), the packages that are to be installed.
    type: list
    elements: str
    default: []
  parts:
    description: With C(admitted), what each host of this run has, and the release of its Slurm.
    type: list
    elements: dict
    default: []
  certificate:
    description: With C(admitted), the certificate that the node shows.
    type: str
    default: ""
  given:
    description: With C(joined), what C(admitted) has returned.
    type: dict
    default: {}
  name:
    description: With C(dismissed), the node.
    type: str
    default: ""
  patience:
    description: With C(proven), the seconds in which the node must be ready.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Prove that the node takes jobs
  provision.gpu.slurm:
    state: proven
"""

RETURN = r"""
packages:
  description: Packages to install or to remove.
  type: list
  elements: str
  returned: with C(state=looked) and C(state=absent)
controls:
  description: Whether this host runs slurmctld.
  type: bool
  returned: with C(state=looked)
node:
  description: Whether jobs run on this host; with C(state=proven) what slurmctld says of it.
  type: raw
  returned: with C(state=looked) and C(state=proven)
gone:
  description: Whether Slurm has to be taken away.
  type: bool
  returned: with C(state=looked)
part:
  description: What this host has for jobs.
  type: dict
  returned: with C(state=asked) and C(state=admitted)
release:
  description: What slurmd says of its release.
  type: str
  returned: with C(state=asked)
certificate:
  description: The certificate that the key is sealed for.
  type: str
  returned: with C(state=asked)
sealed:
  description: The cluster's key for that node alone.
  type: str
  returned: with C(state=admitted)
digest:
  description: SHA-256 of the cluster's key.
  type: str
  returned: with C(state=admitted)
now:
  description: The host's clock.
  type: float
  returned: with C(state=asked) and C(state=admitted)
job:
  description: What a job on the node saw.
  type: str
  returned: with C(state=proven)
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    MAPPING,
    NAMES,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.slurm import answer

ARGUMENTS = {
    "state": one_of(*answer.STATES),
    "options": MAPPING,
    "packages": NAMES,
    "parts": {"type": "list", "elements": "dict", "default": []},
    "certificate": TEXT,
    "given": MAPPING,
    "name": TEXT,
    "patience": {"type": "int", "default": 60},
}


def main() -> None:
    run(ARGUMENTS, answer.settle)


if __name__ == "__main__":
    main()
