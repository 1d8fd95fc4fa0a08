"""What is locked for each row, and which of it may move.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provision.errors import InputError
from provision.inventory import did_you_mean
from provision.lock.model import Lock, locked_names, stacks_of, wheels
from provision.lock.own import OWN
from provision.registry import LOCKED
from provision.resolve import Choice, Stack
from provision.upstream.packages import Indices

# What `--upgrade` takes beside names: the indices that unchanged stacks were made from.
SOURCES = "sources"


@dataclass(frozen=True)
class Upgrade:
    """What `--upgrade` may move: everything, or components, packages and wheels by name."""

    everything: bool = False
    names: frozenset[str] = frozenset()

    def moves(self, *names: str) -> bool:
        """Whether any of these may move."""
        return self.everything or not self.names.isdisjoint(names)


@dataclass(frozen=True)
class Held:
    """What is locked for one stack of a row."""

    part: Mapping[str, Any]
    packages: Mapping[str, Mapping[str, Any]]
    requirements: str
    reasons: Mapping[str, str]

    @property
    def wheels(self) -> dict[str, str]:
        """Name -> version."""
        return wheels(self.requirements)


def held(before: Lock | None, choice: Choice) -> list[Held]:
    """What is locked for the choice's hosts, in the order of `stacks_of`; empty without a row."""
    return [
        Held(
            before.stacks[name],
            before.details["packages"][name],
            before.details["requirements"][name],
            before.details["reasons"][name],
        )
        for name in (locked_names(before, choice) if before is not None else ())
        if before is not None
    ]


def pairs(choices: Iterable[Choice], before: Lock | None) -> Iterable[tuple[Choice, Stack, Held]]:
    """(choice, stack, what is locked for it) of each stack that the lock has already."""
    for choice in choices:
        locked = held(before, choice)
        if locked:
            yield from ((choice, *pair) for pair in zip(stacks_of(choice), locked, strict=True))


def upgrade_of(names: Sequence[str], everything: bool, before: Lock | None) -> Upgrade:
    """`--upgrade` and the names behind it. InputError for a name that the lock does not have."""
    if not everything:
        if names:
            raise InputError(
                "a name alone moves nothing",
                where=" ".join(names),
                hint=f"`provision lock --upgrade {' '.join(names)}`",
            )
        return Upgrade()
    if not names:
        return Upgrade(everything=True)
    if before is None:
        raise InputError(
            "there is no lock yet, so nothing of it can move",
            where=" ".join(names),
            hint="`provision lock`",
        )
    locked = {package for stack in before.details["packages"].values() for package in stack}
    locked |= {wheel for text in before.requirements.values() for wheel in wheels(text)}
    for name in names:
        if name not in {*LOCKED, *locked, SOURCES}:
            raise InputError(
                f"the lock has no component, package or wheel {name!r}",
                where="--upgrade",
                expected=", ".join([*LOCKED, SOURCES]),
                hint=did_you_mean(name, [*LOCKED, SOURCES, *sorted(locked)]),
            )
    return Upgrade(names=frozenset(names))


def version_of(stack: Stack, component: str) -> str:
    """The version of a component as the lock has it; "" where the stack has none."""
    if component == "nvidia_driver":
        return stack.driver.version
    if component == "tensorflow":
        return stack.tensorflow
    if component in OWN:
        return str(OWN[component].version(stack))
    if stack.cuda.origin == "wheels":
        return ""
    return stack.cuda.version if component == "cuda" else stack.cudnn.version


# Packages and wheels


def by_stack(choices: Iterable[Choice], before: Lock | None) -> dict[str, Held]:
    """Stack id -> what is locked for it."""
    locked: dict[str, Held] = {}
    for _choice, stack, part in pairs(choices, before):
        locked.setdefault(stack.id, part)
    return locked


def packages(
    choices: Iterable[Choice],
    indices: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
) -> dict[str, dict[str, str]]:
    """Stack id -> package -> the version to keep."""
    versions: dict[str, dict[str, str]] = {}
    for choice, stack, locked in pairs(choices, before):
        if stack.id in versions:
            continue
        free: set[str] = set()
        for component in ("nvidia_driver", "cuda", *OWN):
            part = locked.part.get(component)
            moved = part and part["version"] != version_of(stack, component)
            if part and (moved or upgrade.moves(component)):
                free |= {name for group in part["packages"].values() for name in group}
        # The packages of one source are made for each other: they move together.
        listed = indices[choice.platform.id].everything
        sources = {p.source for p in listed if p.name in upgrade.names}
        free |= {p.name for p in listed if p.source in sources} | upgrade.names
        versions[stack.id] = {
            name: str(package["version"])
            for name, package in locked.packages.items()
            if name not in free and not upgrade.everything
        }
    return versions


def wheel_versions(
    choices: Iterable[Choice], before: Lock | None, upgrade: Upgrade
) -> dict[str, dict[str, str]]:
    """Stack id -> wheel -> the version to keep."""
    versions: dict[str, dict[str, str]] = {}
    free = upgrade.moves("tensorflow")
    for _choice, stack, locked in pairs(choices, before):
        if stack.id not in versions:
            versions[stack.id] = {
                n: v for n, v in locked.wheels.items() if not free and not upgrade.moves(n)
            }
    return versions
