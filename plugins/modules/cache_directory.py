#!/usr/bin/python
"""Refuses a folder that the fleet's cache must not have for itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cache_directory
short_description: Check that a folder can be the cache's
description:
  - Fails if the folder, a folder above it or anything in it belongs to another user than root and
    nginx's, if it is a symlink, if it contains files that nginx did not create, or if its disk is
    too full.
  - Changes nothing.
options:
  path:
    description: The folder, which need not be there yet.
    type: path
    required: true
  size_gb:
    description: How many GiB the cache is to have, with what it has already. C(0) for no matter.
    type: int
    default: 0
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: Look before anything is touched
  provision.gpu.cache_directory:
    path: /var/cache/gpu-artifact-cache
    size_gb: 60
"""

RETURN = r"""
room_gib:
  description: How many GiB the cache can have there, with what it has already.
  type: int
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import cache_directory

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "size_gb": {"type": "int", "default": 0},
}


def main() -> None:
    run(ARGUMENTS, cache_directory.settle)


if __name__ == "__main__":
    main()
