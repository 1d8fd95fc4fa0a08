#!/usr/bin/python
"""Rebuilds the dynamic loader's cache where it lacks libraries that it has to know."""

from __future__ import annotations

DOCUMENTATION = r"""
module: loader_cache
short_description: Rebuild the dynamic loader's cache where it lacks libraries
description:
  - Runs C(ldconfig) where the loader does not find a soname, finds it at another path, or does
    not know a directory that holds libraries.
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
extends_documentation_fragment: [provision.gpu.common]
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import loader
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import (
    Context,
    run_program,
)

# Seconds for ldconfig, which reads each library's beginning.
PATIENCE = 600.0


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "libraries": {"type": "dict", "default": {}},
            "directories": {"type": "list", "elements": "str", "default": []},
            "renewed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    outdated = loader.outdated(Context(), params["libraries"], params["directories"])
    changed = bool(params["renewed"] or outdated)
    if changed and not module.check_mode:
        answer = run_program([loader.PROGRAM], patience=PATIENCE)
        if answer.rc != 0:
            module.fail_json(msg=f"ldconfig failed: {answer.err.strip() or answer.out.strip()}")
    module.exit_json(changed=changed, outdated=outdated)


if __name__ == "__main__":
    main()
