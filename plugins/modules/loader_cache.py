#!/usr/bin/python
"""Rebuilds the dynamic loader's cache where it lacks libraries that it has to know."""

from __future__ import annotations

DOCUMENTATION = r"""
module: loader_cache
short_description: Rebuild the dynamic loader's cache if libraries are missing in it
description:
  - Runs C(ldconfig) if the loader does not find a soname, finds it at another path, or does not
    know a directory with libraries.
extends_documentation_fragment: [provision.gpu.common]
options:
  libraries:
    description: The paths of which the loader has to take one, by soname. With none any file will
      do.
    type: dict
    default: {}
  directories:
    description: Directories whose libraries the cache has to know.
    type: list
    elements: str
    default: []
  renewed:
    description: Rebuild it in any case, as the libraries or the loader's settings have changed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Make the loader know cuDNN
  provision.gpu.loader_cache:
    libraries:
      libcudnn.so.8: [/opt/nvidia/cudnn/current/lib64/libcudnn.so.8]
"""

RETURN = r"""
outdated:
  description: Sonames and directories that the cache lacked.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG, MAPPING, NAMES
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import loader_cache

ARGUMENTS = {"libraries": MAPPING, "directories": NAMES, "renewed": FLAG}


def main() -> None:
    run(ARGUMENTS, loader_cache.settle)


if __name__ == "__main__":
    main()
