"""The catalog with one version of a component alone, and what it gives for some hosts.

Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from packaging.version import Version

from provision.catalog import Catalog
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.lock.model import stacks_of
from provision.resolve import Choice, resolve_fleet

# What of a lock says which version of a component it is.
_Part = Mapping[str, Any]


def narrowed_to(
    facts: Catalog, choice: Choice, component: str, part: _Part, number: int = 0
) -> Catalog | None:
    """The catalog with this one version of a component alone; None where it can't have it.

    `number` says which of the stacks it is for.
    """
    if component == "tensorflow":
        return _one_tensorflow(facts, choice, part, number)
    return _NARROWED[component](facts, choice, part)


def _one_driver(facts: Catalog, choice: Choice, part: _Part) -> Catalog | None:
    """Other branches stay: other hosts with this wish may need one for their GPUs."""
    here, version = choice.platform.id, part["version"]
    branch = [
        row for row in facts.drivers
        if row.platform == here and row.branch == part["branch"] and row.userspace
    ]  # fmt: skip
    rows = [row for row in branch if row.version == version]
    # A row that has left the catalog: its branch's packages have the same names.
    rows = rows or [row.model_copy(update={"version": version}) for row in branch[:1]]
    others = [row for row in facts.drivers if row.platform != here or row not in branch]
    return facts.model_copy(update={"drivers": others + rows[:1]}) if rows else None


def _one_cuda(facts: Catalog, choice: Choice, part: _Part) -> Catalog | None:
    if part.get("source") == "network":
        return _with_patch(facts, str(part["release"]), str(part["version"]))
    here = choice.platform.id
    rows = [r for r in facts.cuda if r.platform == here and r.version == part["version"]]
    others = [row for row in facts.cuda if row.platform != here]
    return facts.model_copy(update={"cuda": others + rows}) if rows else None


def _one_cudnn(facts: Catalog, _choice: Choice, part: _Part) -> Catalog | None:
    known = (part["version"], part["sha256"])
    rows = [row for row in facts.cudnn if (row.version, row.sha256) == known]
    return facts.model_copy(update={"cudnn": rows}) if rows else None


def _one_container_toolkit(facts: Catalog, _choice: Choice, part: _Part) -> Catalog | None:
    version = part["version"]
    rows = [
        row.model_copy(update={"versions": [version]})
        for row in facts.nvidia_container_toolkit
        if version in row.versions
    ]
    return facts.model_copy(update={"nvidia_container_toolkit": rows}) if rows else None


def _one_tensorflow(facts: Catalog, choice: Choice, part: _Part, number: int) -> Catalog | None:
    """With the Python that it is locked on."""
    version, python = part["version"], part["python"]
    row = next((row for row in facts.tensorflow if version in row.patches), None)
    if row is None or python not in choice.platform.pythons:
        return None
    newest = max(row.patches, key=Version)
    if stacks_of(choice)[number].cuda.origin == "wheels" and version != newest:
        return None  # the catalog knows the CUDA wheels of the newest patch alone
    platforms = [
        one.model_copy(update={"pythons": [python]}) if one.id == choice.platform.id else one
        for one in facts.platforms
    ]
    rows = [row.model_copy(update={"patches": [version]})]
    # Without a wish, another release may be preferred now.
    if choice.wish.tensorflow is not None or choice.beside:
        rows += [other for other in facts.tensorflow if other.release != row.release]
    return facts.model_copy(update={"tensorflow": rows, "platforms": platforms})


_NARROWED: Mapping[str, Callable[[Catalog, Choice, _Part], Catalog | None]] = {
    "nvidia_driver": _one_driver,
    "cuda": _one_cuda,
    "cudnn": _one_cudnn,
    "nvidia_container_toolkit": _one_container_toolkit,
}


def _with_patch(facts: Catalog, release: str, version: str) -> Catalog | None:
    """The catalog with one patch of a CUDA release alone, for a repository has them all."""
    rows = []
    for row in facts.cuda_releases:
        if row.release == release:
            if version not in row.versions:
                return None
            row = row.model_copy(update={"versions": {version: row.versions[version]}})
        rows.append(row)
    return facts.model_copy(update={"cuda_releases": rows})


def resolved(facts: Catalog, fleet: Fleet, choice: Choice) -> Choice | None:
    """What a catalog gives for the hosts of one choice, or None."""
    hosts = {h: w for h, w in fleet.hosts.items() if w.literal == choice.wish.literal}
    try:
        found = resolve_fleet(facts, dataclasses.replace(fleet, hosts=hosts))
    except UnsatisfiableError:
        return None
    for one in found:
        here = one.wish.literal == choice.wish.literal and one.platform.id == choice.platform.id
        # With fewer versions to choose from one row may serve all generations.
        if here and one.generations in (choice.generations, ()):
            # Without the narrowed Pythons.
            first, *others = [
                dataclasses.replace(stack, platform=choice.platform) for stack in stacks_of(one)
            ]
            return dataclasses.replace(choice, stack=first, beside=tuple(others))
    return None
