"""The catalog with one version of a component alone, and what it gives for some hosts.

Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from provision.catalog import Catalog
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.lock.model import stacks_of
from provision.resolve import Choice, resolve_fleet


def narrowed_to(
    facts: Catalog, choice: Choice, component: str, part: Mapping[str, Any], number: int = 0
) -> Catalog | None:
    """The catalog with this one version of a component alone; None where it can't have it.

    `number` says which of the stacks it is for.
    """
    here, version = choice.platform.id, part["version"]
    if component == "nvidia_driver":
        branch = [
            r for r in facts.drivers
            if r.platform == here and r.branch == part["branch"] and r.userspace
        ]  # fmt: skip
        rows = [row for row in branch if row.version == version]
        # A row that has left the catalog: its branch's packages have the same names.
        rows = rows or [row.model_copy(update={"version": version}) for row in branch[:1]]
        # Other branches stay: other hosts with this wish may need one for their GPUs.
        others = [row for row in facts.drivers if row.platform != here or row not in branch]
        return facts.model_copy(update={"drivers": others + rows[:1]}) if rows else None
    if component == "cuda" and part.get("source") == "network":
        return _with_patch(facts, str(part["release"]), str(version))
    if component == "cuda":
        cudas = [r for r in facts.cuda if r.platform == here and r.version == version]
        others_ = [row for row in facts.cuda if row.platform != here]
        return facts.model_copy(update={"cuda": others_ + cudas}) if cudas else None
    if component == "cudnn":
        cudnns = [r for r in facts.cudnn if r.version == version and r.sha256 == part["sha256"]]
        return facts.model_copy(update={"cudnn": cudnns}) if cudnns else None
    if component == "nvidia_container_toolkit":
        toolkits = [
            row.model_copy(update={"versions": [version]})
            for row in facts.nvidia_container_toolkit
            if version in row.versions
        ]
        return facts.model_copy(update={component: toolkits}) if toolkits else None
    rows_ = [row for row in facts.tensorflow if version in row.patches]
    if not rows_ or part["python"] not in choice.platform.pythons:
        return None
    if stacks_of(choice)[number].cuda.origin == "wheels" and version != max(
        rows_[0].patches, key=Version
    ):
        return None  # the catalog knows the CUDA wheels of the newest patch alone
    platforms = [
        one.model_copy(update={"pythons": [part["python"]]}) if one.id == here else one
        for one in facts.platforms
    ]
    others__ = [row for row in facts.tensorflow if row.release != rows_[0].release]
    # Without a wish, another release may be preferred now.
    free = choice.wish.tensorflow is None and not choice.beside
    tensorflow = [rows_[0].model_copy(update={"patches": [version]}), *([] if free else others__)]
    return facts.model_copy(update={"tensorflow": tensorflow, "platforms": platforms})


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
