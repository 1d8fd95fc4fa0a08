#!/usr/bin/python
"""Brings the repository of CUDA's local installer to a host, or removes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_installer
short_description: Install the repository in CUDA's local installer, or remove it
description:
  - Downloads NVIDIA's local installer, checks its SHA-256, unpacks it into a temporary directory
    and moves its repository into place. Nothing of it is executed or registered with dpkg.
  - An existing repository from elsewhere is used as it is. One that conflicts with the new one is
    kept under another name.
  - Fails if users other than root could replace the installer before it is unpacked.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.ca_bundle]
options:
  state:
    description: With V(trusted) only the directory is judged. With V(absent) the installer is
      removed, and its repository where this module brought it.
    type: str
    choices: [present, trusted, absent]
    default: present
  url:
    description: Where the installer is.
    type: str
    required: true
  sha256:
    description: Its SHA-256.
    type: str
    default: ""
  directory:
    description: Where it is downloaded to.
    type: str
    required: true
  repository:
    description: The directory of its repository, as V(/var/cuda-repo-debian12-11-8-local).
    type: str
    required: true
  begin:
    description: Begin the download in a process of its own, and return at once. The next call
      without it waits for that and uses its result, or does again what failed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring the local installer's repository
  provision.gpu.cuda_installer:
    url: https://mirror.example.org/cuda-repo-debian12-11-8-local_11.8.0-520.61.05-1_amd64.deb
    sha256: 9fd9c0fa8a8f3f9d2fd8c9b0ff1a04a93ba3c0d4d1ddfb6ca5c6ec24d7d3f4a1
    directory: /var/cache/provision
    repository: /var/cuda-repo-debian12-11-8-local
"""

RETURN = r"""
begun:
  description: Whether the download has been begun.
  type: bool
  returned: with begin
saved:
  description: Under which names was kept what stood in the repository's place.
  type: list
  elements: str
  returned: with state present, where the installer was unpacked
removed:
  description: The files and directories that were removed.
  type: list
  elements: str
  returned: with state absent
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    REQUIRED_TEXT,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.cuda import (
    installer,
)

ARGUMENTS = {
    "state": one_of("present", "trusted", "absent", default="present"),
    "url": {"type": "str", "required": True, "no_log": True},
    "sha256": TEXT,
    "directory": REQUIRED_TEXT,
    "repository": REQUIRED_TEXT,
    "ca_bundle": TEXT,
    "begin": FLAG,
}


def main() -> None:
    run(ARGUMENTS, installer.settle, addresses=True)


if __name__ == "__main__":
    main()
