#!/usr/bin/python
"""The models that a host serves, or none: a thin shim."""

DOCUMENTATION = r"""
module: servings
short_description: Serve models with TensorFlow Serving
description:
  - Runs a container of TensorFlow Serving for each model of the list, as a unit of systemd with
    its own ports, share of the GPUs and limits. Models that are no longer in the list are stopped;
    directories of models are never removed.
  - A changed model starts beside its former container, which is stopped once the new one serves. If
    the new one does not come up, the task fails and the former one goes on serving.
  - Adds the models to the front door's nginx, each with a token.
  - In check mode nothing is changed. The task fails where a run would refuse.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(present) makes the models as given. C(looked) changes nothing and returns what differs.
        Both fail where this host lacks what a model needs.
      - C(proven) checks of each model that it serves its newest version, that a prediction equals
        TensorFlow's own, and that the front door requires its token.
    type: str
    choices: [present, looked, proven]
    default: present
  servings:
    description: The models, as the role's option C(gpu_servings).
    type: raw
    default: []
  tokens:
    description: "The models' tokens, C({name: token}). The host makes the missing ones."
    type: dict
    default: {}
  slurm:
    description: The host's options C(slurm_state), C(slurm_compute) and C(slurm_gpus). Models
      don't get GPUs that Slurm manages.
    type: dict
    default: {}
  image:
    description: TensorFlow Serving's image by its digest, or the id of one that docker has.
    type: str
    default: ""
  image_sha256:
    description: SHA-256 of the image's tar file, if the image comes as one.
    type: str
    default: ""
  archive:
    description: The path of that tar file on the host.
    type: str
    default: ""
  release:
    description: The TensorFlow that the image must have. Empty for any.
    type: str
    default: ""
  python:
    description: Python of the host's TensorFlow, for C(state=proven). Empty if it has none.
    type: str
    default: ""
  program:
    description: The program that computes the prediction with TensorFlow, for C(state=proven).
    type: str
    default: ""
  patience:
    description: Seconds that each model has to come up.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Serve a model
  provision.gpu.servings:
    servings:
      - {name: mnist, models: /srv/models/mnist, gpus: [0], gpu_memory: 0.4, port: 8501}
    image: docker.io/tensorflow/serving@sha256:9f1c...

- name: Prove the models
  provision.gpu.servings:
    state: proven
"""

RETURN = r"""
changes:
  description: "Models that differ from what is given, and why, C({name: reason})."
  type: dict
  returned: with C(state=looked)
gone:
  description: Models that are served but no longer in the list.
  type: list
  elements: str
  returned: with C(state=looked)
file:
  description: Whether the image must be loaded from its tar file.
  type: bool
  returned: with C(state=looked)
models:
  description: Models that were started or changed.
  type: list
  elements: str
  returned: with C(state=present)
removed:
  description: Models that were stopped and removed; their directories stay.
  type: list
  elements: str
  returned: with C(state=present)
tokens:
  description: The directory of the tokens, readable by root only.
  type: str
  returned: with C(state=present)
summary:
  description: What was or would be done, in a sentence; empty if nothing.
  type: str
  returned: with C(state=present)
proven:
  description: Models that passed.
  type: list
  elements: str
  returned: with C(state=proven)
versions:
  description: "The version that each model serves, C({name: number})."
  type: dict
  returned: with C(state=proven)
not_compared:
  description: "Why a prediction was not compared with TensorFlow's own, C({name: reason})."
  type: dict
  returned: with C(state=proven)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.answers import settle
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    MAPPING,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_serving import (  # noqa: E501
    service,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace.program.places import (  # noqa: E501
    RefusedError,
)

ARGUMENTS = {
    "state": one_of("present", "looked", "proven", default="present"),
    # No secret, but where somebody puts one into it.
    "servings": {"type": "raw", "default": [], "no_log": True},
    "tokens": dict(MAPPING, no_log=True),
    "slurm": MAPPING,
    "image": TEXT,
    "image_sha256": TEXT,
    "archive": TEXT,
    "release": TEXT,
    "python": TEXT,
    # No secret: pages of text, which nobody wants in the journal and in every result.
    "program": dict(TEXT, no_log=True),
    "patience": {"type": "int", "default": 300},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    # Names and paths stay readable in what this returns.
    tokens = {str(token) for token in module.params["tokens"].values()}
    module.no_log_values = tokens | {module.params["program"]} - {""}
    settle(module, service.settle, RefusedError, ValueError, OSError)


if __name__ == "__main__":
    main()
