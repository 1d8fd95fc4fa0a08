#!/usr/bin/python
"""Brings the keys of the platform's package archive back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: archive_keys
short_description: Bring missing or altered keys of the platform's package archive back
description:
  - Keeps altered keys as C(NAME.dpkg-old) and installs the package of the keys again. apt has
    proven its lists already, so it needs no key for that.
options:
  files:
    description: The keys that are missing or altered.
    type: list
    elements: str
    required: true
  package:
    description: The package that holds them, as V(debian-archive-keyring).
    type: str
    required: true
  wait:
    description: Seconds to wait for another apt.
    type: int
    default: 600
author:
  - The provision authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Bring back the keys of Debian's archive
  provision.gpu.archive_keys:
    files: [/usr/share/keyrings/debian-archive-keyring.gpg]
    package: debian-archive-keyring
"""

RETURN = r"""
kept:
  description: Under which names altered keys were kept.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402  documentation comes first
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (  # noqa: E402
    archive_keys,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "str", "required": True},
            "package": {"type": "str", "required": True},
            "wait": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        result = archive_keys.settle(module.params, module.check_mode)
    except archive_keys.RefusalError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
