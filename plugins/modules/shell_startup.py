#!/usr/bin/python
"""Writes our lines into users' ~/.bashrc, each as the user whose file it is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: shell_startup
short_description: Add the environment of GPU programs to users' ~/.bashrc, as these users
description:
  - Adds a line that reads C(/etc/profile.d/provision-gpu.sh), between two markers, at the top of a
    user's C(~/.bashrc), or removes it. The rest of the file stays, and so do its mode and owner; a
    copy of the old file is kept beside it.
  - Each file is read and written by a process with that user's privileges only, within 30 s. A file
    that can't be changed does not fail the task; the reason is returned.
extends_documentation_fragment: [provision.gpu.common]
options:
  users:
    description: Names of users.
    type: list
    elements: str
    required: true
  state:
    description: Whether the lines are to be there.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Put the environment into ada's shells
  provision.gpu.shell_startup:
    users: [ada]
"""

RETURN = r"""
files:
  description: Files that were changed, or would be in check mode, where links lead.
  type: list
  elements: str
  returned: always
left:
  description: Why a user's file was left alone, by user, as the end of a sentence.
  type: dict
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    PRESENT_OR_ABSENT,
    REQUIRED_NAMES,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.gpu_env import (
    shell_startup,
)

ARGUMENTS = {"users": REQUIRED_NAMES, "state": PRESENT_OR_ABSENT}


def main() -> None:
    run(ARGUMENTS, shell_startup.settle)


if __name__ == "__main__":
    main()
