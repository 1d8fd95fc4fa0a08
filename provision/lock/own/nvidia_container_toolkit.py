"""The lock's part of NVIDIA's container toolkit: packages of NVIDIA's repository for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from provision.catalog import Catalog
from provision.errors import UnsatisfiableError
from provision.lock.pieces import repository_data, versions
from provision.resolve import ContainerToolkit, Stack
from provision.upstream.packages import Indices, Package, Repository, compare, upstream


def version(stack: Stack) -> str:
    """Its version; "" where the stack has none."""
    return stack.container_toolkit.version if stack.container_toolkit else ""


def urls(stack: Stack) -> list[str]:
    """The address of its repository."""
    return [stack.container_toolkit.row.url] if stack.container_toolkit else []


def repositories(stacks: Sequence[Stack], reader: Any) -> dict[str, Repository]:
    """{url: repository} of the stacks' toolkits, read."""
    toolkits = [stack.container_toolkit.row for stack in stacks if stack.container_toolkit]
    return {
        row.url: reader.container_toolkit(row)
        for row in {toolkit.url: toolkit for toolkit in toolkits}.values()
    }


def narrowed(facts: Catalog, part: Mapping[str, Any]) -> Catalog | None:
    """The catalog with this version of it alone; None where the catalog lacks it."""
    locked = part["version"]
    rows = [
        row.model_copy(update={"versions": [locked]})
        for row in facts.nvidia_container_toolkit
        if locked in row.versions
    ]
    return facts.model_copy(update={"nvidia_container_toolkit": rows}) if rows else None


def part(
    stack: Stack, indices: Indices, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """(its part of the lock, its packages by name); ({}, {}) where the stack has none."""
    if stack.container_toolkit is None:
        return {}, {}
    repository = indices.repositories[stack.container_toolkit.row.url]
    packages = _packages(stack.container_toolkit, repository, prefer, stack.id)
    return {
        "version": stack.container_toolkit.version,
        "packages": {"toolkit": versions(packages)},
        "repository": repository_data(repository),
    }, packages


def _packages(
    toolkit: ContainerToolkit, repository: Repository, prefer: Mapping[str, str], where: str
) -> dict[str, Package]:
    """The toolkit's packages, all of the chosen version.

    They depend on each other in exactly their own version, and on nothing else of the repository.
    """
    packages: dict[str, Package] = {}
    for name in sorted(toolkit.row.packages):
        offered = [p for p in repository.packages if p.name == name]
        fit = [p for p in offered if upstream(p.version) == toolkit.version]
        if not fit:
            raise UnsatisfiableError(
                f"NVIDIA's repository has no {name} of version {toolkit.version}",
                where=where,
                got=", ".join(sorted({p.version for p in offered})) or "none at all",
                expected=f"{name} {toolkit.version}-...",
                hint="wish for a version that is there: container_toolkit in gpu_stack",
            )
        preferred = [p for p in fit if p.version == prefer.get(name)]
        packages[name] = (preferred or sorted(fit, key=functools.cmp_to_key(_older_first)))[-1]
    return packages


def _older_first(a: Package, b: Package) -> int:
    return compare(a.version, b.version)
