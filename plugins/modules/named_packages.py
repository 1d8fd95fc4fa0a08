#!/usr/bin/python
"""Installs packages by their names, or takes them away, without python3-apt."""

from __future__ import annotations

DOCUMENTATION = r"""
module: named_packages
short_description: Install packages at the version that apt offers, or remove them
description:
  - Installs the missing packages of O(names), without recommended ones. Fails if apt would remove a
    package for them. Edited configuration files stay.
  - Unlike M(ansible.builtin.apt) it does not need python3-apt, whose installation would fetch the
    lists of every source and fail with any of them.
  - What a killed task left in C(/usr/sbin/policy-rc.d) is put right first, also where O(names) is
    empty.
  - In check mode apt simulates the installation.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
options:
  names:
    description: The packages. C(name=version) asks for a version, or with a C(*) at its end for any
      that begins so.
    type: list
    elements: str
    required: true
  state:
    description: V(absent) removes those of O(names) that are installed, and is refused where apt
      would change another package with them. Their configuration files stay.
    type: str
    choices: [present, absent]
    default: present
  force:
    description: A package of O(names) that is held may be changed, and a newer one replaced.
    type: bool
    default: false
  lists:
    description: Fetch apt's lists first where something is missing, unless a task of this run has.
      A source that apt cannot use is no failure where apt has the packages all the same. Nothing is
      fetched in check mode.
    type: bool
    default: false
  start:
    description: Start the services that come with the packages.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Install a host compiler for nvcc
  provision.gpu.named_packages:
    names: [gcc-10, g++-10]

- name: Install nginx at the version that the archive has today
  provision.gpu.named_packages:
    names: [nginx]
    lists: true
    start: false

- name: Install the fabric manager of the driver's version
  provision.gpu.named_packages:
    names: ["nvidia-fabricmanager-470=470.256.02-*"]
    force: true
    start: false

- name: Take nginx away, and nothing with it
  provision.gpu.named_packages:
    names: [nginx, nginx-common]
    state: absent
"""

RETURN = r"""
packages:
  description: Those of O(names) that were installed or removed, or would be in check mode.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    REQUIRED_NAMES,
    WAIT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import named_packages

ARGUMENTS = {
    "names": REQUIRED_NAMES,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "force": FLAG,
    "lists": FLAG,
    "start": {"type": "bool", "default": True},
    "wait": WAIT,
}


def main() -> None:
    run(ARGUMENTS, named_packages.settle)


if __name__ == "__main__":
    main()
