"""The catalog narrowed to one version of a component, and what it resolves to for some hosts.

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
from provision.lock.own import OWN
from provision.resolve import Choice, resolve_fleet

# A component's part of a locked stack.
_Part = Mapping[str, Any]


def narrowed_to(
    facts: Catalog, choice: Choice, component: str, part: _Part, number: int = 0
) -> Catalog | None:
    """The catalog with this version of a component alone; None where the catalog lacks it.

    `number` is the place of the stack among the choice's.
    """
    if component == "tensorflow":
        return _one_tensorflow(facts, choice, part, number)
    if component in OWN:
        narrowed: Catalog | None = OWN[component].narrowed(facts, part)
        return narrowed
    return _NARROWED[component](facts, choice, part)


def _one_driver(facts: Catalog, choice: Choice, part: _Part) -> Catalog | None:
    """Other branches stay: other hosts with this wish may need one for their GPUs."""
    if part.get("source", "distribution") != "distribution":
        return _one_of_nvidias(facts, choice, part)
    platform, version = choice.platform.id, part["version"]
    branch = [
        row for row in facts.drivers
        if row.platform == platform and row.branch == part["branch"] and row.userspace
    ]  # fmt: skip
    rows = [row for row in branch if row.version == version]
    # Not in the catalog any more: the packages of its branch have the same names.
    rows = rows or [row.model_copy(update={"version": version}) for row in branch[:1]]
    other_rows = [row for row in facts.drivers if row.platform != platform or row not in branch]
    return facts.model_copy(update={"drivers": other_rows + rows[:1]}) if rows else None


def _one_of_nvidias(facts: Catalog, choice: Choice, part: _Part) -> Catalog | None:
    """Without the branches that were newer than the locked one, and with its version alone."""
    branch, version = part["branch"], part["version"]

    def newer(other: str) -> bool:
        return Version(other) > Version(branch)

    sources = [
        row.model_copy(update={"drivers": [b for b in row.drivers if not newer(b)]})
        if row.platform == choice.platform.id
        else row
        for row in facts.nvidia_sources
    ]
    runs = [
        run for run in facts.nvidia_runfiles
        if run.kind != "driver" or run.version == version
        or not (newer(run.version.split(".")[0]) or run.version.startswith(f"{branch}."))
    ]  # fmt: skip
    branches = [
        row.model_copy(update={"newest": version}) if row.branch == branch else row
        for row in facts.driver_branches
    ]
    update = {"nvidia_sources": sources, "nvidia_runfiles": runs, "driver_branches": branches}
    return facts.model_copy(update=update)


def _one_cuda(facts: Catalog, choice: Choice, part: _Part) -> Catalog | None:
    if part.get("source") == "network":
        return _with_patch(facts, str(part["release"]), str(part["version"]))
    platform = choice.platform.id
    rows = [r for r in facts.cuda if r.platform == platform and r.version == part["version"]]
    other_rows = [row for row in facts.cuda if row.platform != platform]
    return facts.model_copy(update={"cuda": other_rows + rows}) if rows else None


def _one_cudnn(facts: Catalog, _choice: Choice, part: _Part) -> Catalog | None:
    locked = (part["version"], part["sha256"])
    rows = [row for row in facts.cudnn if (row.version, row.sha256) == locked]
    return facts.model_copy(update={"cudnn": rows}) if rows else None


def _one_tensorflow(facts: Catalog, choice: Choice, part: _Part, number: int) -> Catalog | None:
    """Narrowed to the Python of the lock, too."""
    version, python = part["version"], part["python"]
    locked = next((row for row in facts.tensorflow if version in row.patches), None)
    if locked is None or python not in choice.platform.pythons:
        return None
    newest = max(locked.patches, key=Version)
    if stacks_of(choice)[number].cuda.origin == "wheels" and version != newest:
        return None  # the catalog knows the CUDA wheels of the newest patch alone
    platforms = [
        platform.model_copy(update={"pythons": [python]})
        if platform.id == choice.platform.id
        else platform
        for platform in facts.platforms
    ]
    rows = [locked.model_copy(update={"patches": [version]})]
    # Without a wish, another release may be preferred now.
    if choice.wish.tensorflow is not None or choice.beside:
        rows += [row for row in facts.tensorflow if row.release != locked.release]
    return facts.model_copy(update={"tensorflow": rows, "platforms": platforms})


_NARROWED: Mapping[str, Callable[[Catalog, Choice, _Part], Catalog | None]] = {
    "nvidia_driver": _one_driver,
    "cuda": _one_cuda,
    "cudnn": _one_cudnn,
}


def _with_patch(facts: Catalog, release: str, version: str) -> Catalog | None:
    """The catalog with this patch of a CUDA release alone; a repository has all patches."""
    rows = []
    for row in facts.cuda_releases:
        if row.release == release:
            if version not in row.versions:
                return None
            row = row.model_copy(update={"versions": {version: row.versions[version]}})
        rows.append(row)
    return facts.model_copy(update={"cuda_releases": rows})


def resolved(facts: Catalog, fleet: Fleet, choice: Choice) -> Choice | None:
    """The choice resolved from another catalog for its hosts, or None."""
    hosts = {h: w for h, w in fleet.hosts.items() if w.literal == choice.wish.literal}
    try:
        candidates = resolve_fleet(facts, dataclasses.replace(fleet, hosts=hosts))
    except UnsatisfiableError:
        return None
    for candidate in candidates:
        same_hosts = (
            candidate.wish.literal == choice.wish.literal
            and candidate.platform.id == choice.platform.id
        )
        # With fewer versions to choose from one row may serve all generations.
        if same_hosts and candidate.generations in (choice.generations, ()):
            # With the platform's own Pythons, not the narrowed ones.
            stack, *beside = [
                dataclasses.replace(stack, platform=choice.platform)
                for stack in stacks_of(candidate)
            ]
            return dataclasses.replace(choice, stack=stack, beside=tuple(beside))
    return None
