"""Choices, indices and requirements -> the lock.

Pure: the same choices, indices and requirements give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from provision.errors import UnsatisfiableError
from provision.lock.model import FORMAT, Lock, digest_of, locked_names, row_of, stacks_of
from provision.lock.own import OWN
from provision.lock.parts import closed
from provision.models import plain
from provision.resolve import Choice, Stack
from provision.upstream.packages import Indices, Package, Source


def make(
    choices: Sequence[Choice],
    indices: Mapping[str, Indices],
    requirements: Mapping[str, str],
    *,
    prefer: Mapping[str, Mapping[str, str]] | None = None,
    before: Lock | None = None,
) -> Lock:
    """The lock of choices, from their indices (by platform id) and requirements (by stack id).

    `prefer` are the package versions to keep (by stack id). A stack that is unchanged since
    `before` keeps its sources there: an index with a new date alone is no change.
    UnsatisfiableError when the indices no longer have what the catalog names.
    """
    rows: list[dict[str, Any]] = []
    stacks: dict[str, Any] = {}
    details: dict[str, dict[str, Any]] = {
        "packages": {},
        "requirements": {},
        "reasons": {},
        "sources": {},
    }
    for choice in choices:
        old_names = locked_names(before, choice)
        names = []
        for number, stack in enumerate(stacks_of(choice)):
            index, text = indices[choice.platform.id], requirements[stack.id]
            name = _add(stack, index, text, (prefer or {}).get(stack.id, {}), stacks, details)
            names.append(name)
            if before is not None and old_names:
                _keep_sources(before, old_names[number], stacks[name], details, name)
        row = {**row_of(choice), "stack": names[0]}
        if choice.beside:
            row["beside"] = names[1:]
        if choice.generations:
            row["generations"] = row.pop("generations")
        if choice.models:
            row["models"] = {word: list(choice.models[word]) for word in sorted(choice.models)}
        rows.append(row)
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    stacks = {name: stacks[name] for name in sorted(stacks)}
    details = {key: {n: v[n] for n in sorted(v)} for key, v in details.items()}
    digest = digest_of(rows, stacks, details)
    return Lock({"format": FORMAT, "digest": digest, "rows": rows, "stacks": stacks}, details)


def _keep_sources(
    before: Lock, old_name: str, part: Mapping[str, Any], details: Mapping[str, Any], name: str
) -> None:
    """Restores the locked dates and hashes of a stack's sources where the stack is unchanged."""

    def places(sources: Any) -> list[dict[str, Any]]:
        dated = ("date", "sha256")
        return [{k: v for k, v in source.items() if k not in dated} for source in sources]

    old = before.details
    same = (
        plain(before.stacks[old_name]) == part
        and plain(old["packages"][old_name]) == details["packages"][name]
        and old["requirements"][old_name] == details["requirements"][name]
        and places(old["sources"][old_name]) == places(details["sources"][name])
    )
    if same:
        details["sources"][name] = plain(old["sources"][old_name])


def _add(
    stack: Stack,
    indices: Indices,
    requirements: str,
    prefer: Mapping[str, str],
    stacks: dict[str, Any],
    details: dict[str, dict[str, Any]],
) -> str:
    """Adds a stack to `stacks` and `details`; returns its name in the lock."""
    name = stack.id
    part, packages = _stack(stack, indices, requirements, prefer)
    if stacks.get(name, part) != part:
        # Two cuDNN archives of one version with different hashes: the hash tells them apart.
        name = f"{stack.id}-{stack.cudnn.sha256[:8]}"
    stacks[name] = part
    details["packages"][name] = {
        package.name: {
            "version": package.version,
            "sha256": package.sha256,
            "size": package.size,
            "source": package.origin,
        }
        for package in packages.values()
    }
    details["requirements"][name] = requirements
    details["reasons"][name] = {reason.component: reason.text for reason in stack.reasons}
    details["sources"][name] = [
        {
            "url": source.url,
            "suite": source.suite,
            "components": list(source.components),
            "signed_by": list(source.signed_by),
            "date": source.date,
            "sha256": source.sha256,
        }
        for source in _sources(stack, indices)
    ]
    return name


def _sources(stack: Stack, indices: Indices) -> list[Source]:
    """The archive's suites, where the stack needs the archive, and the repositories it uses."""
    cuda, driver = stack.cuda, stack.driver
    sources = list(indices.sources) if needs_archive(stack) else []
    urls = [cuda.source.url] if cuda.source is not None else []
    urls += [driver.url] if driver.origin == "network" else []
    urls += [url for own in OWN.values() for url in own.urls(stack)]
    return sources + [indices.repositories[url].source for url in dict.fromkeys(urls)]


def needs_archive(stack: Stack) -> bool:
    """Whether any of the stack's packages comes from the platform's own archive."""
    return "distribution" in (stack.driver.origin, stack.cuda.origin)


def _stack(
    stack: Stack, indices: Indices, requirements: str, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """(component -> part of the lock, name -> package) of a stack, as `closed`."""
    # The locked versions that are left may not fit together any more. The packages of one source
    # are made for each other: then all packages of an incomplete source move.
    for versions in (prefer, _whole(prefer, indices)) if prefer else ():
        try:
            return closed(stack, indices, requirements, versions)
        except UnsatisfiableError:
            continue
    return closed(stack, indices, requirements, {})


def _whole(prefer: Mapping[str, str], indices: Indices) -> dict[str, str]:
    """The versions of packages from whose source the indices have every preferred version."""
    everything = indices.everything
    available = {(package.name, package.version) for package in everything}
    incomplete = {
        package.source
        for package in everything
        if package.name in prefer and (package.name, prefer[package.name]) not in available
    }
    moving = {package.name for package in everything if package.source in incomplete}
    return {name: version for name, version in prefer.items() if name not in moving}
