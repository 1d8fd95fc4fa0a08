#!/usr/bin/python
"""Takes other entries for one of this project's repositories out of apt's sources."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_sources
short_description: Put other entries for a repository aside in apt's sources
description:
  - Finds the entries for a repository that this project's roles did not write. One of these beside
    the right entry, with another key, makes apt refuse all work.
  - Nothing is deleted. A file that holds nothing else is renamed to C(NAME.provision-saved); of any
    other a copy is kept under that name before the entries leave it.
  - In check mode it says which files those are. There is no diff, for an address in them may hold
    a password.
options:
  repository:
    description: Whose repository, by a name in a component's C(repositories.py), such as C(cuda).
    type: str
    required: true
  url:
    description: The role's address for it, where that is not the vendor's own.
    type: str
    default: ""
author:
  - The provision authors (!UNKNOWN)
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import other_sources
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import Context


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repository": {"type": "str", "required": True},
            "url": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    handle = other_sources.stale_files if module.check_mode else other_sources.put_aside
    name, url = module.params["repository"], module.params["url"]
    if name not in other_sources.REPOSITORIES:
        known = ", ".join(other_sources.REPOSITORIES)
        module.fail_json(msg=f"no component has a repository {name}; there are {known}")
    context = Context()
    try:
        stale = handle(context, name, url)
    except OSError as error:
        module.fail_json(msg=f"apt's sources could not be put aside: {error}")
    signed_by = other_sources.signed_by(context, name, url)
    module.exit_json(changed=bool(stale), stale=stale, signed_by=signed_by)


if __name__ == "__main__":
    main()
