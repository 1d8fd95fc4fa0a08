"""What stays when a lock is made again: everything that is still to be had.

A lock that moved with every new version upstream would change two hundred hosts because one was
added. So a row whose wish and platform are as they were keeps its choices, its packages and its
wheels as long as the indices have them; `--upgrade` lets go of all, or of one.

Pure: catalogs, indices and locks in, choices and preferences out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from provision.catalog import Catalog, DriverRow
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, did_you_mean
from provision.lock import Lock, locked_names, stacks_of, wheels
from provision.registry import LOCKED
from provision.resolve import Choice, Stack, resolve_fleet
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Indices, upstream

# What of a stack is held, each only as far as what comes before it allows.
HELD = ("nvidia_driver", "cuda", "cudnn", "nvidia_container_toolkit", "tensorflow")


@dataclass(frozen=True)
class Upgrade:
    """What may move: everything, or components, packages and wheels by their names."""

    everything: bool = False
    names: frozenset[str] = frozenset()

    def moves(self, *names: str) -> bool:
        """Whether one of these may."""
        return self.everything or not self.names.isdisjoint(names)


@dataclass(frozen=True)
class Held:
    """What a lock has for the hosts of one row."""

    part: Mapping[str, Any]
    packages: Mapping[str, Mapping[str, Any]]
    requirements: str
    reasons: Mapping[str, str]

    @property
    def wheels(self) -> dict[str, str]:
        """Name -> version."""
        return wheels(self.requirements)


def held(before: Lock | None, choice: Choice) -> list[Held]:
    """What a lock has for just these hosts, as `stacks_of` the choice; nothing without a row."""
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


def _pairs(choices: Iterable[Choice], before: Lock | None) -> Iterable[tuple[Choice, Stack, Held]]:
    """Each stack that the lock has already."""
    for choice in choices:
        found = held(before, choice)
        if found:
            yield from ((choice, *one) for one in zip(stacks_of(choice), found, strict=True))


def upgrade_of(words: Sequence[str], everything: bool, before: Lock | None) -> Upgrade:
    """`--upgrade`, and the names behind it. InputError for one that the lock does not have."""
    if not everything:
        if words:
            raise InputError(
                "a name alone moves nothing",
                where=" ".join(words),
                hint=f"`provision lock --upgrade {' '.join(words)}`",
            )
        return Upgrade()
    if not words:
        return Upgrade(everything=True)
    if before is None:
        raise InputError(
            "there is no lock yet, so nothing of it can move",
            where=" ".join(words),
            hint="`provision lock`",
        )
    known = {name for stack in before.details["packages"].values() for name in stack}
    known |= {name for text in before.requirements.values() for name in wheels(text)}
    for word in words:
        if word not in {*LOCKED, *known}:
            raise InputError(
                f"the lock has no component, package or wheel {word!r}",
                where="--upgrade",
                expected=", ".join(LOCKED),
                hint=did_you_mean(word, [*LOCKED, *sorted(known)]),
            )
    return Upgrade(names=frozenset(words))


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
        locked = _locked_driver(one, found, upgrade)
        one, told = settle(facts, one, indices[one.platform.id], locked)
        notes += told
        chosen.append(one)
    return chosen, list(dict.fromkeys(notes))


def version_of(stack: Stack, component: str) -> str:
    """The version of a component, as the lock says it."""
    if component == "nvidia_driver":
        return stack.driver.version
    if component == "tensorflow":
        return stack.tensorflow
    if component == "nvidia_container_toolkit":
        return stack.container_toolkit.version if stack.container_toolkit else ""
    if stack.cuda.origin == "wheels":
        return ""
    return stack.cuda.version if component == "cuda" else stack.cudnn.version


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


def _with_reasons(stack: Stack, moved: Stack, found: Held) -> Stack:
    """What stays has the reason that it was locked with."""
    reasons = []
    for reason in stack.reasons:
        name = reason.component
        stays = version_of(stack, name) != version_of(moved, name)
        text = found.reasons.get(name) if stays and name in HELD else None
        reasons.append(dataclasses.replace(reason, text=text or reason.text))
    return dataclasses.replace(stack, reasons=tuple(reasons))


def has_driver(row: DriverRow, indices: Indices) -> bool:
    """Whether the indices have this driver whole."""
    branch = Branch(row.version, frozenset(row.branch_sources))
    try:
        universe = Universe.of(indices.for_driver(row))
        close(universe, [*row.userspace, *indices.kernel_of(row)], branch)
    except UnsatisfiableError:
        return False
    return True


def _locked_driver(choice: Choice, found: Sequence[Held], upgrade: Upgrade) -> str:
    """The locked version of a driver of the same branch and source that may stay; "" for none."""
    if not found or upgrade.moves("nvidia_driver"):
        return ""
    part, row = found[0].part["nvidia_driver"], choice.stack.driver
    same = (part["branch"], part.get("source", "distribution")) == (row.branch, row.origin)
    return str(part["version"]) if same else ""


def settle(
    facts: Catalog, choice: Choice, indices: Indices, locked: str = ""
) -> tuple[Choice, list[str]]:
    """A driver that has left the archive gives way to the next of its branch that is there.

    A security suite keeps only its newest. Without another the choice stays as it is, for `make` to
    say what is missing. Of Ubuntu's drivers and of those in NVIDIA's repository the catalog knows
    the branch, and the index the versions: the `locked` one stays, else the newest is taken.
    """
    stack = choice.stack
    if stack.driver.origin == "runfile":
        return _with_run(facts, choice, locked), []
    if stack.driver.origin == "network" or choice.platform.distribution == "ubuntu":
        row = _of_index(choice, indices, locked)
        if row is None or row.version == stack.driver.version:
            return choice, []
        why = "the one that is locked" if row.version == locked else "the newest there"
        told = f"{row.version} is {why}"
        first, *others = [_with_driver(one, row, told) for one in stacks_of(choice)]
        return dataclasses.replace(choice, stack=first, beside=tuple(others)), []
    if has_driver(stack.driver, indices):
        return choice, []
    needed = max(_driver_minimum(one) for one in stacks_of(choice))
    rows = [
        row
        for row in facts.drivers
        if row.platform == choice.platform.id
        and row.branch == stack.driver.branch
        and row.userspace
        and row.version != stack.driver.version
        and Version(row.version) >= needed
    ]
    for row in sorted(rows, key=lambda r: Version(r.version), reverse=True):
        if has_driver(row, indices):
            gone = (
                f"driver {stack.driver.version} has left the archive, "
                f"{row.version} is the next of branch {row.branch}"
            )
            first, *others = [_with_driver(one, row, gone) for one in stacks_of(choice)]
            note = f"{choice.platform.title}: {gone}"
            return dataclasses.replace(choice, stack=first, beside=tuple(others)), [note]
    return choice, []


def _with_run(facts: Catalog, choice: Choice, locked: str) -> Choice:
    """The choice with the installer that is locked, where the catalog has it still."""
    stack = choice.stack
    if locked in ("", stack.driver.version) or "." in (choice.wish.driver_branch or ""):
        return choice
    for run in facts.nvidia_runfiles:
        if run.kind == "driver" and run.version == locked:
            changed_ = {"version": locked, "url": run.url, "sha256": run.sha256 or ""}
            row = stack.driver.model_copy(update=changed_)
            told = f"{locked} is the one that is locked"
            first, *others = [_with_driver(one, row, told) for one in stacks_of(choice)]
            return dataclasses.replace(choice, stack=first, beside=tuple(others))
    return choice


def _of_index(choice: Choice, indices: Indices, locked: str) -> DriverRow | None:
    """The driver of the choice's branch that an index has whole; None where it has none."""
    row = choice.stack.driver
    there = indices.repositories[row.url].packages if row.url else indices.packages
    found = {upstream(one.version) for one in there if one.name == row.userspace[0]}
    if "." in (choice.wish.driver_branch or ""):
        found &= {row.version}
    needed = max(_driver_minimum(one) for one in stacks_of(choice))
    fit = [
        one for one in found
        if re.fullmatch(r"\d+(\.\d+)+", one)
        and one.startswith(f"{row.branch}.")
        and Version(one) >= needed
    ]  # fmt: skip
    fit.sort(key=lambda one: (one == locked, Version(one)), reverse=True)
    rows = (row.model_copy(update={"version": one}) for one in fit)
    return next((one for one in rows if has_driver(one, indices)), None)


def _with_driver(stack: Stack, row: DriverRow, why: str) -> Stack:
    reasons = tuple(
        dataclasses.replace(reason, text=f"{reason.text}; {why}")
        if reason.component == "nvidia_driver"
        else reason
        for reason in stack.reasons
    )
    return dataclasses.replace(stack, driver=row, reasons=reasons)


def _driver_minimum(stack: Stack) -> Version:
    row = stack.row
    needed = [stack.cuda.driver_minimum, *([row.driver_minimum] if row else [])]
    return max(Version(one) for one in needed)


# Packages and wheels


def by_stack(choices: Iterable[Choice], before: Lock | None) -> dict[str, Held]:
    """Stack id -> what is locked for it."""
    found: dict[str, Held] = {}
    for _choice, stack, one in _pairs(choices, before):
        found.setdefault(stack.id, one)
    return found


def packages(
    choices: Iterable[Choice],
    indices: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
) -> dict[str, dict[str, str]]:
    """Stack id -> package -> the version to keep."""
    kept: dict[str, dict[str, str]] = {}
    for choice, stack, found in _pairs(choices, before):
        if stack.id in kept:
            continue
        free: set[str] = set()
        for component in ("nvidia_driver", "cuda", "nvidia_container_toolkit"):
            part = found.part.get(component)
            moved = part and part["version"] != version_of(stack, component)
            if part and (moved or upgrade.moves(component)):
                free |= {name for group in part["packages"].values() for name in group}
        # The packages of one source are made for each other: they move together.
        listed = indices[choice.platform.id].everything
        sources = {p.source for p in listed if p.name in upgrade.names}
        free |= {p.name for p in listed if p.source in sources} | upgrade.names
        kept[stack.id] = {
            name: str(package["version"])
            for name, package in found.packages.items()
            if name not in free and not upgrade.everything
        }
    return kept


def wheel_versions(
    choices: Iterable[Choice], before: Lock | None, upgrade: Upgrade
) -> dict[str, dict[str, str]]:
    """Stack id -> wheel -> the version to keep."""
    kept: dict[str, dict[str, str]] = {}
    free = upgrade.moves("tensorflow")
    for _choice, stack, found in _pairs(choices, before):
        if stack.id not in kept:
            kept[stack.id] = {
                n: v for n, v in found.wheels.items() if not free and not upgrade.moves(n)
            }
    return kept


@dataclass(frozen=True)
class _Wheel:
    pin: str
    hashes: frozenset[str]
    text: str


def _blocks(requirements: str) -> dict[str, _Wheel]:
    """Name -> its lines."""
    found = {}
    for text in re.findall(r"^[^\s#-][^\n]*\n(?:[ \t][^\n]*\n?)*", requirements, re.MULTILINE):
        pin = text.splitlines()[0].rstrip(" \\")
        name = re.split(r"[=; ]", pin, maxsplit=1)[0]
        found[name.lower()] = _Wheel(pin, frozenset(re.findall(r"--hash=(\S+)", text)), text)
    return found


def same_hashes(requirements: str, found: Held | None, *, where: str) -> str:
    """Requirements with the hashes that were locked, where the version is the same.

    An index adds files to a version as Pythons come, which is nothing to move a lock for.
    InputError where a locked hash is gone and another one has come: then a file is another one.
    """
    old = _blocks(found.requirements) if found is not None else {}
    texts = []
    for name, wheel in _blocks(requirements).items():
        was = old.get(name)
        if was is None or was.pin != wheel.pin:
            texts.append(wheel.text)
        elif was.hashes <= wheel.hashes:
            texts.append(was.text)
        elif wheel.hashes <= was.hashes:
            texts.append(wheel.text)  # files were taken back
        else:
            raise changed(
                f"{where}, wheel {wheel.pin}",
                ", ".join(sorted(wheel.hashes - was.hashes)),
                ", ".join(sorted(was.hashes - wheel.hashes)),
            )
    return "".join(texts)


def file_hashes(before: Lock | None) -> dict[str, str]:
    """URL -> SHA-256 of the installers and .run files that a lock has."""
    parts = [
        part[component].get(word, {})
        for part in (before.stacks.values() if before is not None else ())
        for component, word in (("cuda", "installer"), ("nvidia_driver", "runfile"))
        if component in part
    ]
    return {str(one["url"]): str(one["sha256"]) for one in parts if one}


def changed(where: str, got: str, expected: str) -> InputError:
    """Upstream has another thing under the same name."""
    return InputError(
        "upstream has other content under the same version",
        where=where,
        got=got,
        expected=expected,
        hint="nothing of it was taken; a mirror or proxy in between? if the new one is right, "
        "remove lock.yml and lock again",
    )


def check_hashes(
    choices: Iterable[Choice], indices: Mapping[str, Indices], before: Lock | None
) -> None:
    """InputError where an index has a locked package with another hash."""
    for choice, _stack, found in _pairs(choices, before):
        there: dict[tuple[str, str], set[str]] = {}
        for package in indices[choice.platform.id].everything:
            there.setdefault((package.name, package.version), set()).add(package.sha256)
        for name, locked in found.packages.items():
            hashes = there.get((name, locked["version"]))
            if hashes and locked["sha256"] not in hashes:
                raise changed(
                    f"{choice.platform.title}, {name} {locked['version']}",
                    " or ".join(f"SHA-256 {one}" for one in sorted(hashes)),
                    f"SHA-256 {locked['sha256']}",
                )


def gone(
    choices: Iterable[Choice], indices: Mapping[str, Indices], before: Lock | None
) -> list[tuple[str, str]]:
    """(what, where it was) of each locked package whose version no index has any more."""
    found: dict[tuple[str, str], None] = {}
    for choice, _stack, locked in _pairs(choices, before):
        there = {(p.name, p.version) for p in indices[choice.platform.id].everything}
        for name in sorted(locked.packages):
            package = locked.packages[name]
            if (name, package["version"]) not in there:
                place = f"{choice.platform.title}, {package['source']}"
                found[(f"{name} {package['version']}", place)] = None
    return list(found)
