#!/usr/bin/python
"""docker's image of the workspaces: pulled, loaded or built; a thin shim."""

DOCUMENTATION = r"""
module: workspace_image
short_description: Pull, load or build the image of workspaces
description:
  - Pulls the image by its digest, loads it from a file after checking its SHA-256, or has docker
    build it from the host's own locked TensorFlow, CUDA and cuDNN.
  - Fails if Jupyter, sshd or TensorBoard is needed and missing in the image. Running workspaces are
    not touched.
  - In check mode nothing is pulled, loaded or built.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.workspace_image]
options:
  archive:
    description: Where the tar file of the image or of its base lies on the host.
    type: str
    default: ""
  containerfile:
    description: The text of the Containerfile by which an image is built.
    type: str
    default: ""
  proxy:
    description: Proxy for the package archive while an image is built.
    type: str
    default: ""
  parts:
    description: What the image must have.
    type: list
    elements: str
    choices: [jupyter, ssh, tensorboard]
    default: []
"""

EXAMPLES = r"""
- name: Bring the image
  provision.gpu.workspace_image:
    image:
      image: registry.example.org/jupyter@sha256:9f1c...
    parts: [jupyter]
"""

RETURN = r"""
reference:
  description: The image's name in docker.
  type: str
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import HIDDEN_TEXT, TEXT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace import (  # noqa: E501
    images,
    parameters,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace.program.places import (  # noqa: E501
    RefusedError,
)

ARGUMENTS = {
    "image": parameters.IMAGE,
    "archive": TEXT,
    "containerfile": TEXT,
    "proxy": HIDDEN_TEXT,
    "parts": {
        "type": "list",
        "elements": "str",
        "choices": ["jupyter", "ssh", "tensorboard"],
        "default": [],
    },
}


def main() -> None:
    # docker's sentence about a proxy that does not answer names it.
    run(ARGUMENTS, images.settle, RefusedError, OSError, addresses=True)


if __name__ == "__main__":
    main()
