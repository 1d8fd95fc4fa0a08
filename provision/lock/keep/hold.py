"""The choices with what stays of the lock: each component, as far as what comes before it allows.

Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from provision.catalog import Catalog
from provision.inventory import Fleet
from provision.lock.keep.held import Held, Upgrade, held, version_of
from provision.lock.keep.narrow import narrowed_to, resolved
from provision.lock.keep.settle import has_driver, locked_driver, settle
from provision.lock.model import Lock, stacks_of
from provision.resolve import Choice, Stack
from provision.upstream.packages import Indices

# What of a stack is held, each only as far as what comes before it allows.
HELD = ("nvidia_driver", "cuda", "cudnn", "nvidia_container_toolkit", "tensorflow")


# The stack


def choose(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    indices: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
) -> tuple[list[Choice], list[str]]:
    """The choices with what stays of the lock, and what is to be told of it."""
    chosen, notes = [], []
    for choice in choices:
        found = held(before, choice)
        one = choice
        if found:
            one, told = hold(facts, fleet, one, found, indices[one.platform.id], upgrade)
            notes += told
        locked = locked_driver(one, found, upgrade)
        one, told = settle(facts, one, indices[one.platform.id], locked)
        notes += told
        chosen.append(one)
    return chosen, list(dict.fromkeys(notes))


def hold(
    facts: Catalog,
    fleet: Fleet,
    choice: Choice,
    found: Sequence[Held],
    indices: Indices,
    upgrade: Upgrade,
) -> tuple[Choice, list[str]]:
    """The choice with as much of the locked stacks as can stay, and what could have moved."""
    notes: list[str] = []
    narrow = facts
    result = choice
    # Of those beside the first the rest is the first one's.
    parts = [(0, component) for component in HELD]
    parts += [(number, "tensorflow") for number in range(1, len(found))]
    for number, component in parts:
        part = found[number].part.get(component, {})
        locked = str(part.get("version", ""))
        newer = version_of(stacks_of(choice)[number], component)
        if not locked or upgrade.moves(component) or locked == newer:
            continue
        sources = {part.get("source", "distribution"), choice.stack.driver.origin}
        if component == "nvidia_driver" and sources != {"distribution"}:
            continue  # `settle` has NVIDIA's own; or the wish is for another source now
        narrowed = narrowed_to(narrow, choice, component, part, number)
        if narrowed is not None and component == "nvidia_driver":
            (row,) = [
                r for r in narrowed.drivers
                if r.platform == choice.platform.id and r.version == locked
            ]  # fmt: skip
            if not has_driver(row, indices):
                notes.append(
                    f"{choice.platform.title}: the archive has no driver {locked} any more"
                )
                continue
        one = resolved(narrowed, fleet, choice) if narrowed is not None else None
        if narrowed is not None and component == "nvidia_driver" and _other(one, number, locked):
            # Another branch is preferred now; where nobody needs it, the locked one stays.
            drivers = [r for r in narrowed.drivers if r.platform != choice.platform.id]
            narrowed = narrowed.model_copy(update={"drivers": [*drivers, row]})
            one = resolved(narrowed, fleet, choice)
        if one is None or version_of(stacks_of(one)[number], component) != locked:
            continue
        narrow, result = narrowed or narrow, one
        notes.append(
            f"{choice.platform.title}: {component} stays at {locked}; "
            f"`provision lock --upgrade {component}` moves it to {newer}"
        )
    if result is not choice:
        stacks = [
            _with_reasons(*one)
            for one in zip(stacks_of(result), stacks_of(choice), found, strict=True)
        ]
        result = dataclasses.replace(result, stack=stacks[0], beside=tuple(stacks[1:]))
    return result, notes


def _other(choice: Choice | None, number: int, driver: str) -> bool:
    return choice is None or stacks_of(choice)[number].driver.version != driver


def _with_reasons(stack: Stack, moved: Stack, found: Held) -> Stack:
    """What stays has the reason that it was locked with."""
    reasons = []
    for reason in stack.reasons:
        name = reason.component
        stays = version_of(stack, name) != version_of(moved, name)
        text = found.reasons.get(name) if stays and name in HELD else None
        reasons.append(dataclasses.replace(reason, text=text or reason.text))
    return dataclasses.replace(stack, reasons=tuple(reasons))
