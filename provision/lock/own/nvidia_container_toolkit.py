"""The lock's part of NVIDIA's container toolkit: packages of NVIDIA's repository for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from provision.catalog import Catalog
from provision.catalog.own.nvidia_container_toolkit import PART
from provision.errors import UnsatisfiableError
from provision.lock.pieces import repository_data, versions
from provision.resolve import Stack
from provision.resolve.own.nvidia_container_toolkit import WORD, ContainerToolkit
from provision.upstream.packages import Indices, Package, Repository, compare, upstream

# Docker, where the host has none.
TABLES = ("engine",)
# The packages' `source` in the lock.
LABEL = "nvidia-container-toolkit"


def _chosen(stack: Stack) -> ContainerToolkit | None:
    toolkit: ContainerToolkit | None = stack.own.get(WORD)
    return toolkit


def version(stack: Stack) -> str:
    """Its version; "" where the stack has none."""
    toolkit = _chosen(stack)
    return toolkit.version if toolkit else ""


def urls(stack: Stack) -> list[str]:
    """The address of its repository."""
    toolkit = _chosen(stack)
    return [toolkit.row.url] if toolkit else []


def repositories(stacks: Sequence[Stack], reader: Any) -> dict[str, Repository]:
    """{url: repository} of the stacks' toolkits, read."""
    rows = [toolkit.row for toolkit in map(_chosen, stacks) if toolkit]
    return {
        row.url: reader.keyed(row.url, row.keyring.url, row.signed_by, LABEL)
        for row in {row.url: row for row in rows}.values()
    }


def narrowed(facts: Catalog, part: Mapping[str, Any]) -> Catalog | None:
    """The catalog with this version of it alone; None where the catalog lacks it."""
    locked = part["version"]
    rows = [
        row.model_copy(update={"versions": [locked]})
        for row in facts.own[PART]
        if locked in row.versions
    ]
    return facts.model_copy(update={"own": {**facts.own, PART: rows}}) if rows else None


def part(
    stack: Stack, indices: Indices, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """(its part of the lock, its packages by name); ({}, {}) where the stack has none."""
    toolkit = _chosen(stack)
    if toolkit is None:
        return {}, {}
    repository = indices.repositories[toolkit.row.url]
    packages = _packages(toolkit, repository, prefer, stack.id)
    return {
        "version": toolkit.version,
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
