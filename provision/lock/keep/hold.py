"""The choices with the locked versions that can stay.

Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from provision.catalog import Catalog
from provision.inventory import Fleet
from provision.lock.keep.held import Held, Upgrade, held, version_of
from provision.lock.keep.narrow import narrowed_to, resolved
from provision.lock.keep.settle import has_driver, in_index, locked_driver, settle
from provision.lock.model import Lock, stacks_of
from provision.lock.own import OWN
from provision.resolve import Choice, Stack
from provision.upstream.packages import Indices

# The components that keep their version, each as far as those before it allow.
HELD = ("nvidia_driver", "cuda", "cudnn", *OWN, "tensorflow")


# The stack


def choose(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    indices: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
) -> tuple[list[Choice], list[str]]:
    """(the choices with the locked versions that can stay, notes for the person)."""
    result, notes = [], []
    for choice in choices:
        index = indices[choice.platform.id]
        locked = held(before, choice)
        chosen = choice
        if locked:
            chosen, more = hold(facts, fleet, chosen, locked, index, upgrade)
            notes += more
        version = locked_driver(chosen, locked, upgrade)
        chosen, more = settle(facts, chosen, index, version)
        notes += more
        result.append(chosen)
    return result, list(dict.fromkeys(notes))


def hold(
    facts: Catalog,
    fleet: Fleet,
    choice: Choice,
    locked_stacks: Sequence[Held],
    indices: Indices,
    upgrade: Upgrade,
) -> tuple[Choice, list[str]]:
    """(the choice with the locked versions that can stay, a note for each that could move)."""
    notes: list[str] = []
    narrow = facts
    result = choice
    # The stacks beside the first share all its components but TensorFlow.
    parts = [(0, component) for component in HELD]
    parts += [(number, "tensorflow") for number in range(1, len(locked_stacks))]
    for number, component in parts:
        part = locked_stacks[number].part.get(component, {})
        locked = str(part.get("version", ""))
        newer = version_of(stacks_of(choice)[number], component)
        if not locked or upgrade.moves(component) or locked == newer:
            continue
        sources = {part.get("source", "distribution"), choice.stack.driver.origin}
        is_driver = component == "nvidia_driver"
        if is_driver and (len(sources) > 1 or _of_settle(choice, part)):
            continue  # the wish is for another source now; or `settle` keeps it
        narrowed = narrowed_to(narrow, choice, component, part, number)
        of_platform = is_driver and sources == {"distribution"}
        if narrowed is not None and of_platform:
            (row,) = [
                r for r in narrowed.drivers
                if r.platform == choice.platform.id and r.version == locked
            ]  # fmt: skip
            if not has_driver(row, indices):
                notes.append(
                    f"{choice.platform.title}: the archive has no driver {locked} any more"
                )
                continue
        kept = resolved(narrowed, fleet, choice) if narrowed is not None else None
        if narrowed is not None and of_platform and not _has_driver_version(kept, number, locked):
            # Another branch is preferred now; where no wish needs it, the locked branch stays.
            drivers = [r for r in narrowed.drivers if r.platform != choice.platform.id]
            narrowed = narrowed.model_copy(update={"drivers": [*drivers, row]})
            kept = resolved(narrowed, fleet, choice)
        if kept is None or version_of(stacks_of(kept)[number], component) != locked:
            continue
        if is_driver and not of_platform and not in_index(kept, indices):
            continue
        narrow, result = narrowed or narrow, kept
        notes.append(
            f"{choice.platform.title}: {component} stays at {locked}; "
            f"`provision lock --upgrade {component}` moves it to {newer}"
        )
    if result is choice:
        return result, notes
    every = zip(stacks_of(result), stacks_of(choice), locked_stacks, strict=True)
    stacks = [_with_reasons(kept, moved, locked) for kept, moved, locked in every]
    return dataclasses.replace(result, stack=stacks[0], beside=tuple(stacks[1:])), notes


def _of_settle(choice: Choice, part: Mapping[str, Any]) -> bool:
    """Whether the driver is NVIDIA's own, of the locked branch: `settle` keeps its version."""
    row = choice.stack.driver
    return row.origin != "distribution" and row.branch == part["branch"]


def _has_driver_version(choice: Choice | None, number: int, version: str) -> bool:
    return choice is not None and stacks_of(choice)[number].driver.version == version


def _with_reasons(stack: Stack, moved: Stack, locked: Held) -> Stack:
    """The stack with the locked reason for each component that stays."""
    reasons = []
    for reason in stack.reasons:
        name = reason.component
        stays = version_of(stack, name) != version_of(moved, name)
        text = locked.reasons.get(name) if stays and name in HELD else None
        reasons.append(dataclasses.replace(reason, text=text or reason.text))
    return dataclasses.replace(stack, reasons=tuple(reasons))
