#!/usr/bin/python
"""Brings the keys of the platform's package archive back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: archive_keys
short_description: Restore missing or altered keys of the platform's package archive
description:
  - Keeps altered keys as C(NAME.dpkg-old) and installs the package of the keys again. apt has
    verified its lists before, so it needs no key for that.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
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

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    REQUIRED_NAMES,
    REQUIRED_TEXT,
    WAIT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import archive_keys

ARGUMENTS = {"files": REQUIRED_NAMES, "package": REQUIRED_TEXT, "wait": WAIT}


def main() -> None:
    run(ARGUMENTS, archive_keys.settle)


if __name__ == "__main__":
    main()
