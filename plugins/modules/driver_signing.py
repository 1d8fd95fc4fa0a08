#!/usr/bin/python
"""Installs the key that DKMS signs the driver's module with, or takes it away."""

DOCUMENTATION = r"""
module: driver_signing
short_description: Make DKMS sign modules with the lab's own key
description:
  - Writes the private key, readable by root only, its certificate, and the settings that make DKMS
    use them. dkms 3 reads a file in C(/etc/dkms/framework.conf.d); dkms 2, as in Debian 11, gets a
    C(sign_tool) in C(/etc/dkms/framework.conf), between two markers.
  - There is no diff, since it would contain the key.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description: V(absent) takes all of it away.
    type: str
    choices: [present, absent]
    default: present
  key:
    description: The private key, PEM without a password.
    type: str
    default: ""
  certificate:
    description: Its certificate, PEM.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Install the key
  provision.gpu.driver_signing:
    key: "{{ lookup('ansible.builtin.file', '/srv/keys/mok.key', rstrip=false) }}"
    certificate: "{{ lookup('ansible.builtin.file', '/srv/keys/mok.pem', rstrip=false) }}"
  no_log: true
"""

RETURN = r"""
files:
  description: Paths of the files that were written or removed, or would be.
  type: list
  elements: str
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    HIDDEN_TEXT,
    PRESENT_OR_ABSENT,
    TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    signing_key,
)

ARGUMENTS = {"state": PRESENT_OR_ABSENT, "key": HIDDEN_TEXT, "certificate": TEXT}


def main() -> None:
    run(ARGUMENTS, signing_key.settle)


if __name__ == "__main__":
    main()
