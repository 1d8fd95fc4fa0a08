#!/usr/bin/python
"""Takes the key of a package repository out of what holds it, by its fingerprint."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_key
short_description: Get the key of a package repository by its fingerprint
description:
  - Reads keys from a text, a directory of the host or a URL, and returns those with an expected
    fingerprint. Fails if there is none, or no gpg to check it.
  - gpg runs in a temporary directory. Nothing is written to the host, so there is never a change;
    in check mode nothing is fetched, and no key is returned.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.ca_bundle]
options:
  fingerprints:
    description: Fingerprints of the keys that are expected, of 40 hexadecimal digits each.
    type: list
    elements: str
    required: true
  text:
    description: The armored text in which the key is; O(directory) and O(url) are not asked then.
    type: str
    default: ""
  directory:
    description: A local repository, whose files C(*.pub), C(*keyring.gpg) and C(*.asc) are read.
    type: str
    default: ""
  url:
    description: Where to fetch it; used where the others are empty.
    type: str
    default: ""
  place:
    description: The repository, as messages name it.
    type: str
    required: true
  owner:
    description: Whose repository it is, as messages name them.
    type: str
    required: true
  given:
    description: How a person can give the key's text instead; empty where they can't.
    type: str
    default: ""
  renewed:
    description: What to do where the owner has changed the key.
    type: str
    default: lock again
  untouched:
    description: What was left as it was after a refusal; empty for all of the host.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Take the key of Docker's repository
  provision.gpu.repository_key:
    url: https://download.docker.com/linux/debian/gpg
    fingerprints: [9DC858229FC7DD38854AE2D88D81803C0EBFCD88]
    place: https://download.docker.com/linux/debian
    owner: Docker
  register: docker
"""

RETURN = r"""
key:
  description: The armored text of the expected keys; empty in check mode.
  type: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    HIDDEN_TEXT,
    REQUIRED_NAMES,
    REQUIRED_TEXT,
    TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import repository_key

ARGUMENTS = {
    "fingerprints": REQUIRED_NAMES,
    "text": TEXT,
    "directory": TEXT,
    "url": HIDDEN_TEXT,
    "ca_bundle": TEXT,
    "place": {"type": "str", "required": True, "no_log": True},
    "owner": REQUIRED_TEXT,
    "given": TEXT,
    "renewed": {"type": "str", "default": "lock again"},
    "untouched": TEXT,
}


def main() -> None:
    run(ARGUMENTS, repository_key.settle, addresses=True)


if __name__ == "__main__":
    main()
