#!/usr/bin/python
"""docker's image of the workspaces: pulled, loaded or built; a thin shim."""

DOCUMENTATION = r"""
module: workspace_image
short_description: Bring the image of people's workspaces
description:
  - Pulls the image by its digest, loads it from a file whose SHA-256 is compared first, or has
    docker build it of the host's own TensorFlow, CUDA and cuDNN, as they are locked.
  - Refuses an image in which Jupyter, sshd or TensorBoard is missing and needed. Nobody's workspace
    is touched.
  - In check mode nothing is brought.
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
extends_documentation_fragment: [provision.gpu.common, provision.gpu.workspace_image]
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace import (  # noqa: E501
    images,
    parameters,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_workspace.program.places import (  # noqa: E501
    RefusedError,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": parameters.IMAGE,
            "archive": {"type": "str", "default": ""},
            "containerfile": {"type": "str", "default": ""},
            # An address may carry a password.
            "proxy": {"type": "str", "default": "", "no_log": True},
            "parts": {
                "type": "list",
                "elements": "str",
                "choices": ["jupyter", "ssh", "tensorboard"],
                "default": [],
            },
        },
        supports_check_mode=True,
    )
    if "@" not in module.params["proxy"]:
        # Else docker's sentence about a proxy that does not answer could not name it.
        module.no_log_values.discard(module.params["proxy"])
    try:
        changed = images.bring(module.params, dry=module.check_mode)
    except (RefusedError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, reference=parameters.reference(module.params["image"]))


if __name__ == "__main__":
    main()
