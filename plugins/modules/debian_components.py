#!/usr/bin/python
"""Enables components of the platform's archive where no source of apt's does."""

from __future__ import annotations

DOCUMENTATION = r"""
module: debian_components
short_description: Enable components of the platform's archive, such as non-free
description:
  - Asks apt which components its sources enable, and writes a source for the missing ones, with the
    URLs and keys of the host's own sources, or of a mirror.
  - Fails if a source of the host has a password in its URL and is sorted after the new one, which
    everybody can read and which therefore has no password.
  - There is no diff, since the former file may contain a password.
extends_documentation_fragment: [provision.gpu.common]
options:
  component:
    description: The component of the stack; its option C(COMPONENT_mirror) is named in messages.
    type: str
    required: true
  title:
    description: What was left as it was after a refusal.
    type: str
    required: true
  components:
    description: The components of the archive.
    type: list
    elements: str
    required: true
  suites:
    description: The release's names in sources; the first one is for new ones.
    type: list
    elements: str
    required: true
  path:
    description: The file to write.
    type: str
    required: true
  mirror:
    description: The address of a mirror instead of the host's own.
    type: str
    default: ""
  always:
    description: Name all components though other sources enable some.
    type: bool
    default: false
  uri:
    description: The address where the host has no source of the release at all.
    type: str
    default: ""
  former:
    description: Files of a mirror that is no longer used; they are removed first.
    type: list
    elements: str
    default: []
  keyring:
    description: The key of that address, and of a mirror that the host's sources do not name.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Enable contrib and non-free
  provision.gpu.debian_components:
    component: cuda
    title: CUDA
    components: [contrib, non-free]
    suites: [bookworm, oldstable]
    path: /etc/apt/sources.list.d/provision-debian-nonfree.sources
    uri: http://deb.debian.org/debian
    keyring: /usr/share/keyrings/debian-archive-keyring.gpg
"""

RETURN = r"""
wanting:
  description: The components that no source enabled.
  type: list
  elements: str
  returned: always
uris:
  description: The addresses of the release in apt's sources, without passwords.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    HIDDEN_TEXT,
    NAMES,
    REQUIRED_NAMES,
    REQUIRED_TEXT,
    TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import debian_components

ARGUMENTS = {
    "component": REQUIRED_TEXT,
    "title": REQUIRED_TEXT,
    "components": REQUIRED_NAMES,
    "suites": REQUIRED_NAMES,
    "path": REQUIRED_TEXT,
    "mirror": HIDDEN_TEXT,
    "always": FLAG,
    "uri": TEXT,
    "former": NAMES,
    # A path; without no_log Ansible warns that its name looks like a secret's.
    "keyring": {"type": "str", "default": "", "no_log": False},
}


def main() -> None:
    run(ARGUMENTS, debian_components.settle, addresses=True)


if __name__ == "__main__":
    main()
