"""What the modules of the workspaces say alike of the image."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `image`."""

    DOCUMENTATION = r"""
options:
  image:
    description: What makes the image, and so its name in docker.
    type: dict
    default: {}
    suboptions:
      image:
        description: An image to pull, with its digest.
        type: str
        default: ""
      image_file:
        description: The image as a tar file on the machine that runs Ansible.
        type: str
        default: ""
      image_sha256:
        description: SHA-256 of that file.
        type: str
        default: ""
      base:
        description: The base of an image that is built on the host, with its digest.
        type: str
        default: ""
      base_file:
        description: That base as a tar file on the machine that runs Ansible.
        type: str
        default: ""
      base_sha256:
        description: SHA-256 of that file.
        type: str
        default: ""
      packages:
        description: Packages of the distribution in an image that is built.
        type: list
        elements: str
        default: []
      places:
        description: Directories of TensorFlow's environments and of cuDNN on the host.
        type: list
        elements: str
        default: []
      stack:
        description: What an image that is built takes from the host.
        type: dict
        default: {}
"""
