"""Which Ansible is started, and with what environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from provision import locales
from provision.errors import MachineError


def find_program(name: str = "ansible-playbook") -> str:
    """ansible-playbook of the Python that runs this, else of PATH."""
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
    """The user's environment with the tree's own configuration.

    The user's is needed whole: ssh-agent, proxies, cloud inventories' credentials.
    """
    found = dict(os.environ)
    config = tree / "ansible.cfg"
    if config.is_file():
        found.setdefault("ANSIBLE_CONFIG", str(config))
    # The report is wanted in this tree, whatever a Molecule run or a shell has left behind.
    found.pop("PROVISION_REPORT_DIR", None)
    # The callback's own table is for people who run ansible-playbook themselves.
    found["PROVISION_LIVE"] = "1"
    return locales.with_utf8(found)
