#!/usr/bin/python
"""The models that a host serves, or none: a thin shim."""

DOCUMENTATION = r"""
module: servings
short_description: Serve models by TensorFlow Serving
description:
  - Brings each model of the list a container of TensorFlow Serving that systemd keeps, with ports,
    a share of GPUs and limits of its own. A model that is no longer named is ended; no directory of
    a model is ever removed.
  - A changed model is started beside the former one, which goes when the new one serves. One that
    does not come up fails the task, and the former one serves on.
  - Leads the front door's nginx to the models, each with a token.
  - In check mode nothing is changed, and what would forbid it fails.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(present) brings models to what is wished. C(looked) changes nothing and says what differs.
        Both refuse what this host can't give.
      - C(proven) asks each model for its newest version, for a prediction that equals
        TensorFlow's own, and through the front door with and without its token.
    type: str
    choices: [present, looked, proven]
    default: present
  servings:
    description: The models, as the role's option C(gpu_servings).
    type: raw
    default: []
  tokens:
    description: "The models' tokens, C({name: token}). The host makes one for who has none here."
    type: dict
    default: {}
  image:
    description: TensorFlow Serving's image by its digest, or the id of one that docker has.
    type: str
    default: ""
  image_sha256:
    description: SHA-256 of the image's tar file, where it comes by one.
    type: str
    default: ""
  archive:
    description: Where that tar file lies on the host.
    type: str
    default: ""
  release:
    description: The TensorFlow that the image must have. Empty for any.
    type: str
    default: ""
  python:
    description: Python of the host's TensorFlow, for C(state=proven). Empty where it has none.
    type: str
    default: ""
  program:
    description: The text of the program that asks TensorFlow itself, for C(state=proven).
    type: str
    default: ""
  patience:
    description: Seconds in which each model must be served.
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
  description: "Why each model is not as wished, C({name: reason})."
  type: dict
  returned: with C(state=looked)
gone:
  description: Models that are served and no longer named.
  type: list
  elements: str
  returned: with C(state=looked)
file:
  description: Whether the image has to come from its file.
  type: bool
  returned: with C(state=looked)
models:
  description: Models that were brought to what is wished.
  type: list
  elements: str
  returned: with C(state=present)
removed:
  description: Models that were ended and forgotten; their directories stay.
  type: list
  elements: str
  returned: with C(state=present)
tokens:
  description: Where the tokens lie, for root alone.
  type: str
  returned: with C(state=present)
summary:
  description: What was done, or would be, in a sentence; empty where nothing was.
  type: str
  returned: with C(state=present)
proven:
  description: Models that are served as they should be.
  type: list
  elements: str
  returned: with C(state=proven)
versions:
  description: "The version that each serves, C({name: number})."
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
