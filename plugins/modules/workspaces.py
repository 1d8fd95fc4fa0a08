#!/usr/bin/python
"""A workspace for each person of a host, or none: a thin shim."""

DOCUMENTATION = r"""
module: workspaces
short_description: Give people of a host containers with Jupyter or SSH
description:
  - Brings each person of the list a container of docker's that systemd keeps, with a home, GPUs,
    limits and ports of their own. Who is no longer named is stopped; no home is ever removed.
  - A change of one person stops that person's container and no other. One in which somebody has
    kernels, terminals or SSH open is not stopped, unless C(in_use=stop).
  - Installs C(/usr/local/sbin/gpu-workspace) and its units where somebody has a workspace, and
    removes them where nobody has one.
  - docker must have the image, see M(provision.gpu.workspace_image).
  - In check mode nothing is changed, and what would forbid it fails.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.workspace_image]
options:
  state:
    description:
      - C(present) brings people to what is wished. C(looked) changes nothing and says what differs.
        Both refuse what this host can't give.
      - C(proven) waits until each workspace does what it should, and fails where one does not.
    type: str
    choices: [present, looked, proven]
    default: present
  workspaces:
    description: The people, as the role's option C(gpu_workspaces).
    type: raw
    default: []
  tokens:
    description: "Jupyter's tokens, C({name: token}). The host makes one for who has none here."
    type: dict
    default: {}
  passwords:
    description: "Hashes of passwords for SSH, C({name: hash})."
    type: dict
    default: {}
  models:
    description: The served models, as the option C(gpu_servings); their GPUs are given to nobody.
    type: list
    elements: dict
    default: []
  root:
    description: Directory of the homes, which root alone can enter.
    type: str
    default: /srv/gpu-workspaces
  address:
    description: Address that Jupyter's ports are opened on.
    type: str
    default: 127.0.0.1
  ssh_address:
    description: Address that the ports of sshd are opened on.
    type: str
    default: 0.0.0.0
  host_memory:
    description: What all may use together, such as C(256g). Empty for the memory of the host.
    type: str
    default: ""
  in_use:
    description: What becomes of a container that has to stop and in which somebody works.
    type: str
    choices: [refuse, stop]
    default: refuse
  slurm:
    description: The host's options of Slurm's, C(slurm_state), C(slurm_compute) and C(slurm_gpus);
      what Slurm gives out nobody gets here.
    type: dict
    default: {}
  shipped:
    description:
      - "The role's own files by their names, the program's start and the units, as
        C({name: text}). Needed with C(state=present)."
    type: dict
  patience:
    description: Seconds in which each workspace must answer, with C(state=proven).
    type: int
    default: 180
"""

EXAMPLES = r"""
- name: Look at who has what
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
  description: "Why each workspace is not as wished, C({name: reason})."
  type: dict
  returned: with C(state=looked)
gone:
  description: Who has a workspace and is no longer named.
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
  description: Whether the image was seen to have all that people need of it.
  type: bool
  returned: with C(state=looked)
parts:
  description: What people need of the image.
  type: list
  elements: str
  returned: with C(state=looked)
file:
  description: Whether the image, or its base, has to come from its file.
  type: bool
  returned: with C(state=looked)
open:
  description: Whether others than root can enter the homes' root.
  type: bool
  returned: with C(state=looked)
people:
  description: Whose workspace was brought to what is wished.
  type: list
  elements: str
  returned: with C(state=present)
removed:
  description: Whose workspace was stopped and forgotten; the home stays.
  type: list
  elements: str
  returned: with C(state=present)
tokens:
  description: Where Jupyter's tokens lie, for root alone.
  type: str
  returned: with C(state=present)
written:
  description: Files of the program that were written or removed.
  type: list
  elements: str
  returned: with C(state=present)
summary:
  description: What was done, or would be, in a sentence; empty where nothing was.
  type: str
  returned: with C(state=present)
proven:
  description: Whose workspaces do what they should.
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
