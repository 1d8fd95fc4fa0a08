#!/usr/bin/python
"""Refuses a folder that the fleet's cache must not have for itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cache_directory
short_description: Refuse a folder that is not the cache's own, or too small for it
description:
  - Fails where the folder, one above it, or what is in it belongs to somebody else than root and
    nginx's user, where it is a link, where it has files that nginx did not put there, and where its
    disk has no room.
  - Changes nothing, in check mode neither.
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
