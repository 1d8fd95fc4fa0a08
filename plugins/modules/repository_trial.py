#!/usr/bin/python
"""Tests whether apt can use a repository, by fetching its lists alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_trial
short_description: Test whether apt can use a repository, before a source names it
description:
  - Runs C(apt-get update) with only this source and this key, from a temporary directory. No source
    on the host names the repository afterwards.
  - A repository that apt can't use does not fail the task; the result is in C(usable). Fails if
    another apt is running for longer than C(wait).
  - The lists are a cache and are never counted as a change; in check mode nothing is fetched.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.ca_bundle
  - provision.gpu.dpkg_wait
options:
  uri:
    description: The repository's address, without a password.
    type: str
    required: true
  login:
    description: C(USER:PASSWORD) for the address, percent-encoded as in one.
    type: str
    default: ""
  suite:
    description: The suite, or C(/) of a flat repository.
    type: str
    required: true
  components:
    description: The components; none in a flat repository.
    type: str
    default: ""
  key:
    description: The armored text of the key that signs it.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Try the repository
  provision.gpu.repository_trial:
    uri: https://mirror.example.org/cuda/debian12
    suite: /
    key: "{{ lookup('ansible.builtin.file', 'mirror.asc') }}"
  register: trial

- name: Stop where it cannot be used
  ansible.builtin.fail:
    msg: "{{ trial.errors | join(' ') }}"
  when: not trial.usable
"""

RETURN = r"""
usable:
  description: Whether apt fetched the lists and their signature is good.
  type: bool
  returned: always
errors:
  description: apt's errors and warnings, each once, without passwords.
  type: list
  elements: str
  returned: always
reasons:
  description: The same, with reasons that signature checkers print on other lines.
  type: list
  elements: str
  returned: always
stderr:
  description: apt's whole standard error, without passwords.
  type: str
  returned: always
locked:
  description: Whether another apt was at work to the end.
  type: bool
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    HIDDEN_TEXT,
    REQUIRED_TEXT,
    TEXT,
    WAIT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import repository_trial

ARGUMENTS = {
    "uri": REQUIRED_TEXT,
    "login": HIDDEN_TEXT,
    "suite": REQUIRED_TEXT,
    "components": TEXT,
    # A public key; without no_log Ansible warns that its name looks like a secret's.
    "key": {"type": "str", "required": True, "no_log": False},
    "ca_bundle": TEXT,
    "wait": WAIT,
}


def main() -> None:
    run(ARGUMENTS, repository_trial.settle)


if __name__ == "__main__":
    main()
