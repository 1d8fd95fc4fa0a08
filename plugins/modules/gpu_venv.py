#!/usr/bin/python
"""Installs TensorFlow's environment with exactly the wheels of its requirements, or removes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_venv
short_description: Install TensorFlow's virtual environment from hash-locked requirements
description:
  - Creates the environment C(ROOT/VERSION-DIGITS), where the digits are the first eight of the
    requirements' SHA-256, and makes it C(ROOT/current). pip installs exactly the wheels of the
    requirements, checked by their hashes.
  - An environment that is unfinished, damaged or writable by other users is replaced. The new one
    is built beside it, checked, synced to the disk, marked as complete, and replaces the old one in
    one step. A failure before that step leaves the old one unchanged.
  - An environment to which people added files is kept as C(NAME.save) when it is replaced or
    removed.
  - An environment in use by a process is not changed, replaced or removed. No process is stopped.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description:
      - C(present) makes or repairs it. C(absent) removes all environments that this module made
        below the root. C(looked) changes nothing and says whether it is complete.
      - All refuse what a run would refuse.
    type: str
    choices: [present, absent, looked]
    default: present
  venv:
    description: The environment.
    type: dict
    required: true
    suboptions:
      root:
        description: Directory of all environments, or a link to it.
        type: str
        required: true
      version:
        description: TensorFlow's exact version.
        type: str
        required: true
      python:
        description: Its Python, such as C(3.9).
        type: str
        required: true
      interpreter:
        description: The Python that creates the environment.
        type: str
        required: true
      requirements:
        description: The text of the hash-locked requirements.
        type: str
        required: true
      requirements_name:
        description: Their name in messages.
        type: str
        default: requirements.txt
      requirements_sha256:
        description: Their SHA-256.
        type: str
        required: true
      prefix:
        description: Directory of the CUDA that C(bin/activate) puts first. Empty for none.
        type: str
        default: ""
      reinstall:
        description: Build it again though it is complete.
        type: bool
        default: false
  pip:
    description: Where pip fetches the wheels from.
    type: dict
    default: {}
    suboptions:
      index_url:
        description: Package index. Empty for pip's own configuration.
        type: str
        default: ""
      extra_index_urls:
        description: Further package indices.
        type: list
        elements: str
        default: []
      proxy:
        description: Proxy for pip.
        type: str
        default: ""
      ca_bundle:
        description: CA bundle on the host.
        type: str
        default: ""
      cache_dir:
        description: Directory on the host where pip keeps its downloads. Empty for none.
        type: str
        default: ""
  switch:
    description: Make it the current one.
    type: bool
    default: true
  keep_old:
    description: Keep the other environments that this module made.
    type: bool
    default: true
  beside:
    description: Names of environments that stay where the others are not kept.
    type: list
    elements: str
    default: []
  begin:
    description: Begin to install the wheels in the background, and return at once.
    type: bool
    default: false
  begun:
    description: An earlier task of this run began it; wait for its result.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Install TensorFlow's environment
  provision.gpu.gpu_venv:
    venv:
      root: /opt/tensorflow
      version: 2.9.3
      python: "3.9"
      interpreter: /usr/bin/python3.9
      requirements: "{{ lookup('ansible.builtin.file', 'requirements.txt', rstrip=False) }}"
      requirements_sha256: a0c523bea07a14381b7318379e409ba269d1e2bec56a8b924114ae22da25ab2b
"""

RETURN = r"""
venv:
  description: The environment's path.
  type: str
  returned: success
complete:
  description: Whether it is finished, with exactly the wheels and the list of its requirements.
  type: bool
  returned: with C(state=looked)
finished:
  description: Whether it needs no replacement.
  type: bool
  returned: with C(state=looked)
missing:
  description: Wheels that are not installed in their version.
  type: list
  elements: str
  returned: with C(state=looked)
begun:
  description: Whether pip works in the background now.
  type: bool
  returned: with C(begin)
kept:
  description: Where environments to which people added files are kept.
  type: list
  elements: str
  returned: success
removed:
  description: Environments that were removed.
  type: list
  elements: str
  returned: with C(state=absent)
would:
  description: What would be done, in a sentence.
  type: str
  returned: success
"""

from subprocess import SubprocessError

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.arguments import one_of
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.tensorflow.environment import (  # noqa: E501
    RefusedError,
    answer,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.refusal import (
    RefusalError,
)

VENV = {
    "root": {"type": "str", "required": True},
    "version": {"type": "str", "required": True},
    "python": {"type": "str", "required": True},
    "interpreter": {"type": "str", "required": True},
    # No secret: pages of hashes, which nobody wants in the journal and in every result.
    "requirements": {"type": "str", "required": True, "no_log": True},
    "requirements_name": {"type": "str", "default": "requirements.txt"},
    "requirements_sha256": {"type": "str", "required": True},
    "prefix": {"type": "str", "default": ""},
    "reinstall": {"type": "bool", "default": False},
}
PIP = {
    "index_url": {"type": "str", "default": "", "no_log": True},
    "extra_index_urls": {"type": "list", "elements": "str", "default": [], "no_log": True},
    "proxy": {"type": "str", "default": "", "no_log": True},
    "ca_bundle": {"type": "str", "default": ""},
    "cache_dir": {"type": "str", "default": ""},
}


def show_addresses_without_logins(module: AnsibleModule) -> None:
    """Lets messages name the addresses that have no password."""
    pip = module.params["pip"]
    addresses = {pip["index_url"], pip["proxy"], *pip["extra_index_urls"]}
    module.no_log_values -= {address for address in addresses if "@" not in address}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": one_of("present", "absent", "looked", default="present"),
            "venv": {"type": "dict", "required": True, "options": VENV},
            "pip": {"type": "dict", "default": {}, "options": PIP},
            "switch": {"type": "bool", "default": True},
            "keep_old": {"type": "bool", "default": True},
            "beside": {"type": "list", "elements": "str", "default": []},
            "begin": {"type": "bool", "default": False},
            "begun": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    show_addresses_without_logins(module)
    try:
        result = answer(module.params, dry=module.check_mode)
    except (RefusedError, RefusalError, OSError, SubprocessError) as error:
        module.fail_json(msg=str(error))
    if not module._diff:
        del result["diff"]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
