#!/usr/bin/python
"""Fetches the lists of one repository alone, to see whether apt could use it."""

DOCUMENTATION = r"""
module: repository_trial
short_description: See whether apt can use a repository, before anything names it
description:
  - Runs C(apt-get update) with this source and this key alone, from a directory that is removed
    again. Nothing on the host names the repository afterwards.
  - A repository that apt cannot use is no failure of the task; C(usable) says it. Fails where
    another apt is at work for longer than C(wait).
  - The lists are a cache and are never counted as a change; in check mode nothing is fetched.
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
  ca_bundle:
    description: CA bundle on the host for the address.
    type: str
    default: ""
  wait:
    description: Seconds to wait for another apt that is at work.
    type: int
    default: 0
author:
  - The provision authors
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
  description: The same with the reasons that a program that checks signatures adds in other lines.
  type: list
  elements: str
  returned: always
stderr:
  description: All that apt wrote, without passwords.
  type: str
  returned: always
locked:
  description: Whether another apt was at work to the end.
  type: bool
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402  documentation comes first
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (  # noqa: E402
    repository_trial,
)


def main():
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "required": True},
            "login": {"type": "str", "default": "", "no_log": True},
            "suite": {"type": "str", "required": True},
            "components": {"type": "str", "default": ""},
            # A public key; without the word Ansible asks whether it is a secret one.
            "key": {"type": "str", "required": True, "no_log": False},
            "ca_bundle": {"type": "str", "default": ""},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, **repository_trial.judge(0, ""))
    answer = repository_trial.fetch(**module.params)
    if answer["locked"]:
        module.fail_json(msg="Another apt is at work. " + " ".join(answer["errors"]), **answer)
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
