"""stacks/<id>.yml and stacks/<id>.requirements.txt: the lock as the roles' identity variables.

Only identity stands here. Where things come from and how they behave stays the inventory's, which a
rendered file must not override.
"""

from __future__ import annotations

from typing import Any

from provision.lock import Lock
from provision.render.yaml_text import dump
from provision.roles import ROLES


def stack_variables(lock: Lock, stack: str) -> dict[str, Any]:
    """All identity variables of one stack, in the order of the components."""
    row = lock.stacks[stack]
    checksums = {
        name: package["sha256"] for name, package in lock.details["packages"][stack].items()
    }
    variables: dict[str, Any] = {}
    for role in ROLES:
        variables |= role.variables(stack, row)
        packages = row[role.name].get("packages")
        if packages is not None:
            names = sorted({name for part in packages.values() for name in part})
            variables[f"{role.name}_checksums"] = {name: checksums[name] for name in names}
    return variables


def render(lock: Lock) -> dict[str, bytes]:
    """Two files per stack."""
    files = {}
    for stack in lock.stacks:
        files[f"stacks/{stack}.yml"] = dump(
            stack_variables(lock, stack),
            header=f"Identity of {stack}.\nMade by `provision render` from lock.yml.",
        )
        files[f"stacks/{stack}.requirements.txt"] = lock.requirements[stack].encode()
    return files
