"""stacks/: the lock's slim part, and each stack as the roles' identity variables.

site.yml loads the slim part alone, and once for all hosts: Ansible reads a play's vars_files again
for every task of every host, 22 ms for a whole lock.yml and 6 ms for the slim part.

Only identity is rendered. Sources and behaviour are the inventory's, which a rendered file must not
override.
"""

from __future__ import annotations

from typing import Any

from provision import catalog, collection
from provision.catalog.rows import own_components
from provision.lock import Lock, names_of
from provision.models import plain
from provision.registry import LOCKED
from provision.render import cache
from provision.roles import ROLES
from provision.yaml_text import dump

NAME = "gpu_lock.yml"
# A rollback names the directory of a former lock.
DIRECTORY = "{{ gpu_stacks | default(playbook_dir ~ '/stacks') }}"


def stack_variables(lock: Lock, stack: str) -> dict[str, Any]:
    """All identity variables of one stack, in the order of the components that it has."""
    row = lock.stacks[stack]
    checksums = {
        name: package["sha256"] for name, package in lock.details["packages"][stack].items()
    }
    variables: dict[str, Any] = {"gpu_sources": sources(lock, stack)}
    for role in ROLES:
        if role.name in LOCKED and role.name not in row:
            continue
        variables |= role.variables(stack, row)
        packages = row.get(role.name, {}).get("packages")
        if packages is not None:
            names = sorted({name for part in packages.values() for name in part})
            variables[f"{role.name}_checksums"] = {name: checksums[name] for name in names}
    return variables


def sources(lock: Lock, stack: str) -> list[dict[str, Any]]:
    """The archives that a stack comes from, with all that a host takes of them."""
    own = {
        component
        for row in lock.slim["rows"]
        if stack in names_of(row)
        for component in own_components(row["platform"]["distribution"])
    }
    bare = collection.stack_module("host.apt").bare
    return [
        {
            "url": bare(source["url"]),
            "suite": source["suite"],
            "components": sorted({*source["components"], *own}),
        }
        for source in lock.details["sources"][stack]
        if source["suite"] != "/"
    ]


def render(lock: Lock, folder: str = "stacks/") -> dict[str, bytes]:
    """The slim lock, what a cache may fetch, and two files per stack."""
    files = {
        folder + NAME: dump(
            {"gpu_lock": plain(lock.slim)},
            header="What hosts are compared with.\nMade by `provision render` from lock.yml.",
        )
    }
    files[folder + cache.NAME] = cache.render(lock, catalog.load())
    for stack in lock.stacks:
        files[f"{folder}{stack}.yml"] = dump(
            stack_variables(lock, stack),
            header=f"Identity of {stack}.\nMade by `provision render` from lock.yml.",
        )
        files[f"{folder}{stack}.requirements.txt"] = lock.requirements[stack].encode()
    return files
