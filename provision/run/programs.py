"""Finds Ansible's programs and builds their environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from provision import locales
from provision.errors import MachineError


def find_program(name: str = "ansible-playbook") -> str:
    """The path of an Ansible program: beside this Python, else in PATH. Raises MachineError."""
    own = Path(sys.executable).parent / name
    program = str(own) if own.is_file() else shutil.which(name)
    if program is None:
        raise MachineError(
            f"{name} is not installed",
            where=sys.executable,
            hint=f"{sys.executable} -m pip install 'ansible-core>=2.17'",
        )
    return program


def environment(tree: Path) -> dict[str, str]:
    """The user's environment with the tree's ansible.cfg.

    The whole environment is needed: ssh-agent, proxies, cloud inventories' credentials.
    """
    variables = dict(os.environ)
    config = tree / "ansible.cfg"
    if config.is_file():
        variables.setdefault("ANSIBLE_CONFIG", str(config))
    # The report belongs into this tree, whatever a Molecule run or a shell has exported.
    variables.pop("PROVISION_REPORT_DIR", None)
    # Without the callback's table, which is for people who run ansible-playbook themselves.
    variables["PROVISION_LIVE"] = "1"
    return locales.with_utf8(variables)
