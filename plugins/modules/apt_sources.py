#!/usr/bin/python
"""Takes other entries for one of this project's repositories out of apt's sources."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_sources
short_description: Disable other entries for a repository in apt's sources
description:
  - Finds entries for a repository that were not written by this collection's roles. If such an
    entry names another key than the role's, apt fails on every command.
  - Nothing is deleted. A file with no other entries is renamed to C(NAME.provision-saved); any
    other file is copied to that name before the entries are removed from it.
  - In check mode the files are only returned. There is no diff, since a URL in them may contain a
    password.
extends_documentation_fragment: [provision.gpu.common]
options:
  repository:
    description: Whose repository, by a name in a component's C(repositories.py), such as C(cuda).
    type: str
    required: true
  url:
    description: The role's address for it, where that is not the vendor's own.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Put other entries for NVIDIA's repository aside
  provision.gpu.apt_sources:
    repository: cuda
    url: https://mirror.example.org/cuda/debian12
"""

RETURN = r"""
stale:
  description: The files that are put aside, wholly or in part.
  type: list
  elements: str
  returned: always
signed_by:
  description: >-
    The key by which another source of this project's names C(url); null where there is none.
  type: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    HIDDEN_TEXT,
    REQUIRED_TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import other_sources

ARGUMENTS = {"repository": REQUIRED_TEXT, "url": HIDDEN_TEXT}


def main() -> None:
    run(ARGUMENTS, other_sources.settle)


if __name__ == "__main__":
    main()
