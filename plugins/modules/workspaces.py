#!/usr/bin/python
"""A workspace for each person of a host, or none: a thin shim."""

DOCUMENTATION = r"""
module: workspaces
short_description: Run a container with Jupyter or SSH for each person
description:
  - Runs a container of docker for each person of the list, as a unit of systemd with its own home,
    GPUs, limits and ports. Containers of people who are no longer in the list are stopped; homes
    are never removed.
  - A change for one person stops only that person's container. A container with open kernels,
    terminals or SSH sessions is not stopped, unless C(in_use=stop).
  - Installs C(/usr/local/sbin/gpu-workspace) and its units if anybody has a workspace, and removes
    them if nobody has.
  - docker must have the image, see M(provision.gpu.workspace_image).
  - In check mode nothing is changed. The task fails where a run would refuse.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.workspace_image]
options:
  state:
    description:
      - C(present) makes the workspaces as given. C(looked) changes nothing and returns what
        differs. Both fail where this host lacks what a workspace needs.
      - C(proven) waits until each workspace works as it should, and fails if one does not.
    type: str
    choices: [present, looked, proven]
    default: present
  workspaces:
    description: The people, as the role's option C(gpu_workspaces).
    type: raw
    default: []
  tokens:
    description: "Jupyter's tokens, C({name: token}). The host makes the missing ones."
    type: dict
    default: {}
  passwords:
    description: "Hashes of passwords for SSH, C({name: hash})."
    type: dict
    default: {}
  models:
    description: The served models, as the option C(gpu_servings). Workspaces don't get their GPUs.
    type: list
    elements: dict
    default: []
  root:
    description: Directory of the homes; only root can enter it.
    type: str
    default: /srv/gpu-workspaces
  address:
    description: Address on which Jupyter listens.
    type: str
    default: 127.0.0.1
  ssh_address:
    description: Address on which sshd listens.
    type: str
    default: 0.0.0.0
  host_memory:
    description: Memory for all workspaces together, as C(256g). Empty for all of the host's.
    type: str
    default: ""
  in_use:
    description: What to do if a container has to stop while somebody works in it.
    type: str
    choices: [refuse, stop]
    default: refuse
  slurm:
    description: The host's options C(slurm_state), C(slurm_compute) and C(slurm_gpus). Workspaces
      don't get GPUs that Slurm manages.
    type: dict
    default: {}
  shipped:
    description:
      - "Files of the role: the program's first file and the units, as C({name: text}). Needed
        with C(state=present)."
    type: dict
  patience:
    description: Seconds that each workspace has to answer, with C(state=proven).
    type: int
    default: 180
"""

EXAMPLES = r"""
- name: See what differs
  provision.gpu.workspaces:
    state: looked
    workspaces:
      - {name: ada, gpus: 1, port: 8801, memory: 16g}
    image:
      image: registry.example.org/jupyter@sha256:9f1c...

- name: Prove the workspaces
  provision.gpu.workspaces:
    state: proven
"""

RETURN = r"""
changes:
  description: "Workspaces that differ from what is given, and why, C({name: reason})."
  type: dict
  returned: with C(state=looked)
gone:
  description: People who have a workspace but are no longer in the list.
  type: list
  elements: str
  returned: with C(state=looked)
reference:
  description: The image's name in docker.
  type: str
  returned: with C(state=looked)
image:
  description: Whether docker has the image.
  type: bool
  returned: with C(state=looked)
tried:
  description: Whether the image was checked for everything that a workspace needs.
  type: bool
  returned: with C(state=looked)
parts:
  description: What the image must have.
  type: list
  elements: str
  returned: with C(state=looked)
file:
  description: Whether the image, or its base, must be loaded from its tar file.
  type: bool
  returned: with C(state=looked)
open:
  description: Whether other users than root can enter the directory of the homes.
  type: bool
  returned: with C(state=looked)
people:
  description: People whose workspace was made or changed.
  type: list
  elements: str
  returned: with C(state=present)
removed:
  description: People whose workspace was stopped and removed; their homes stay.
  type: list
  elements: str
  returned: with C(state=present)
tokens:
  description: The directory of Jupyter's tokens, readable by root only.
  type: str
  returned: with C(state=present)
written:
  description: Files of the program that were written or removed.
  type: list
  elements: str
  returned: with C(state=present)
summary:
  description: What was or would be done, in a sentence; empty if nothing.
  type: str
  returned: with C(state=present)
proven:
  description: People whose workspace passed.
  type: list
  elements: str
  returned: with C(state=proven)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.answers import settle
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    MAPPING,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace import (  # noqa: E501
    parameters,
    service,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace.program.places import (  # noqa: E501
    RefusedError,
)

ARGUMENTS = {
    "state": one_of("present", "looked", "proven", default="present"),
    # No secret, but where somebody puts one into it.
    "workspaces": {"type": "raw", "default": [], "no_log": True},
    "tokens": {"type": "dict", "default": {}, "no_log": True},
    "passwords": {"type": "dict", "default": {}, "no_log": True},
    "models": {"type": "list", "elements": "dict", "default": []},
    "image": parameters.IMAGE,
    "root": {"type": "str", "default": "/srv/gpu-workspaces"},
    "address": {"type": "str", "default": "127.0.0.1"},
    "ssh_address": {"type": "str", "default": "0.0.0.0"},  # noqa: S104 as wished
    "host_memory": TEXT,
    "in_use": one_of("refuse", "stop", default="refuse"),
    "slurm": MAPPING,
    # No secret: pages of text, which nobody wants in the journal and in every result.
    "shipped": {"type": "dict", "no_log": True},
    "patience": {"type": "int", "default": 180},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[["state", "present", ["shipped"]]],
        supports_check_mode=True,
    )
    # People's names and paths stay readable in what this returns.
    shipped = set((module.params["shipped"] or {}).values())
    module.no_log_values = parameters.secrets(module.params) | shipped
    settle(module, service.answer, RefusedError, ValueError, OSError)


if __name__ == "__main__":
    main()
