"""Locks the versions that a working host has: the lock's row is for its twin.

Either all of them are locked or none is. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from provision.catalog import Catalog
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet
from provision.lock import keep
from provision.lock.model import Lock, row_of
from provision.lock.parts import package_names
from provision.models import Platform
from provision.resolve import Choice, explain
from provision.upstream.mirrors import HELP
from provision.upstream.packages import Indices, upstream


def pinned_choice(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    twin: Twin,
    indices: Mapping[str, Indices],
) -> tuple[int, Choice]:
    """(index of the host's row among `choices`, its choice with the host's versions)."""
    wish = fleet.hosts[twin.host]
    # Its wish and platform may have several rows: the one for its GPUs' generations.
    rows = [row_of(explained.choice) for explained in explain(facts, fleet, twin.host)]
    own = [
        (number, choice)
        for number, choice in enumerate(choices)
        if choice.platform.platform == twin.platform and row_of(choice) in rows
    ]
    if not own:
        platform = twin.platform
        raise UnsatisfiableError(
            "its platform can't have its gpu_stack",
            where=twin.host,
            got=f"{platform.distribution} {platform.release} {platform.architecture}",
            expected=" or ".join(c.platform.title for c in choices if c.wish == wish),
        )
    number, choice = own[0]
    _check_wish(twin, choice)
    parts: list[tuple[str, dict[str, str]]] = []
    driver = _driver_of(facts, choice, twin)
    branch = driver.split(".")[0]
    # Its branch alone: another branch could serve its wish as well.
    drivers = [r for r in facts.drivers if r.platform != choice.platform.id or r.branch == branch]
    facts = facts.model_copy(update={"drivers": drivers})
    parts.append(("nvidia_driver", {"version": driver, "branch": branch}))
    cudnn = _cudnn_of(facts, choice, twin)
    if cudnn is not None:
        parts.append(("cudnn", cudnn))
    parts.append(("tensorflow", {"version": twin.wheels["tensorflow"], "python": twin.python}))
    narrow = facts
    for component, part in parts:
        narrowed = keep.narrowed_to(narrow, choice, component, part)
        pinned = keep.resolved(narrowed, fleet, choice) if narrowed is not None else None
        if narrowed is None or pinned is None:
            raise UnsatisfiableError(
                f"no stack for its wish has its {component}",
                where=twin.host,
                got=f"{component} {part['version']}",
                expected=f"{component} {keep.version_of(choice.stack, component)}",
                hint="`provision catalog` shows what runs where",
            )
        narrow, choice = narrowed, pinned
    index = indices[choice.platform.id]
    settled, _notes = keep.settle(facts, own[0][1], index)
    _check_packages(twin, index, choice, settled)
    return number, choice


def _check_wish(twin: Twin, choice: Choice) -> None:
    """InputError where the host's versions contradict its wish."""
    wish = choice.wish
    versions = [
        ("tensorflow", wish.tensorflow, twin.wheels["tensorflow"]),
        ("python", wish.python, twin.python),
        ("cudnn", wish.cudnn.version if wish.cudnn else None, twin.cudnn),
    ]
    for word, wished, installed in versions:
        if wished and installed and not _agree(wished, installed):
            raise _contradicts(twin, word, wished, installed)
    branch = wish.driver_branch
    if branch:
        for root in choice.stack.driver.userspace:
            installed = upstream(twin.packages.get(root, ""))
            if installed and not _agree(branch, installed):
                raise _contradicts(twin, "driver_branch", branch, installed)


def _contradicts(twin: Twin, word: str, wished: str, installed: str) -> InputError:
    return _unlike(
        twin,
        got=f"{word} {installed} on the host",
        expected=f'{word}: "{wished}", as the inventory says',
        hint="change its gpu_stack, or lock from another host",
    )


def _unlike(twin: Twin, *, got: str, expected: str, hint: str) -> InputError:
    message = "the host is not what its gpu_stack says"
    return InputError(message, where=twin.host, got=got, expected=expected, hint=hint)


def _agree(left: str, right: str) -> bool:
    """Whether two versions are equal as far as both go: 8.1.0.77 and 8.1.0, 2.9 and 2.9.3."""
    try:
        a, b = Version(left).release, Version(right).release
    except InvalidVersion:
        return left == right
    length = min(len(a), len(b))
    return a[:length] == b[:length]


def _driver_of(facts: Catalog, choice: Choice, twin: Twin) -> str:
    rows = [row for row in facts.drivers if row.platform == choice.platform.id]
    roots = dict.fromkeys(root for row in rows for root in row.userspace)
    for root in roots:
        if root in twin.packages:
            return upstream(twin.packages[root])
    raise InputError(
        "the host has no driver of its platform's packages",
        where=twin.host,
        expected=f"one of {', '.join(roots)}",
        hint="a driver of NVIDIA's own is locked by wishing for it (driver_source)",
    )


def _cudnn_of(facts: Catalog, choice: Choice, twin: Twin) -> dict[str, str] | None:
    """The catalog's archive of the host's cuDNN; None where its cuDNN is unknown or fits."""
    stack = choice.stack
    if not twin.cudnn or stack.cudnn.origin != "archive" or _agree(stack.cudnn.version, twin.cudnn):
        return None
    for row in facts.cudnn:
        if _agree(row.version, twin.cudnn) and row.architecture == choice.platform.architecture:
            return {"version": row.version, "sha256": row.sha256}
    raise UnsatisfiableError(
        "the catalog has no archive of its cuDNN",
        where=twin.host,
        got=f"cuDNN {twin.cudnn}",
        expected=" or ".join(dict.fromkeys(row.version for row in facts.cudnn)),
    )


def _check_packages(twin: Twin, indices: Indices, pin: Choice, available_choice: Choice) -> None:
    """UnsatisfiableError where an index lacks a package of the stack at the host's version.

    The packages of both choices are checked: the indices can't name those of a driver that has left
    them, as `pin`'s may have, and `available_choice` has a driver that they have.
    """
    available = {(package.name, package.version) for package in indices.packages}
    driver = pin.stack.driver
    names = {*driver.userspace, *driver.kernel, *driver.desktop}
    for choice in (pin, available_choice):
        try:
            names |= set(package_names(choice.stack, indices))
        except UnsatisfiableError:
            continue
    missing = [
        f"{name} {twin.packages[name]}"
        for name in sorted(names)
        if name in twin.packages and (name, twin.packages[name]) not in available
    ]
    if missing:
        raise unavailable(twin, missing, None)


def check_twin(lock: Lock, stack: str, twin: Twin) -> None:
    """Raises where the lock's versions are not the host's, or the host lacks part of the stack."""
    packages = lock.details["packages"][stack]
    part = lock.stacks[stack]
    differ = [
        f"{name} {twin.packages[name]} (only {package['version']} fits the rest)"
        for name, package in packages.items()
        if name in twin.packages and twin.packages[name] != package["version"]
    ]
    if differ:
        raise unavailable(twin, differ, None)
    needed = {
        *part["nvidia_driver"]["packages"]["userspace"],
        *part.get("cuda", {}).get("packages", {}).get("runtime", {}),
    }
    missing = sorted(name for name in needed if name not in twin.packages)
    missing += sorted(name for name in part["tensorflow"]["wheels"] if name not in twin.wheels)
    if missing:
        raise _unlike(
            twin,
            got=f"it lacks {', '.join(missing)}",
            expected=f"all of {stack}",
            hint="`provision plan` tells what a host lacks; lock from one that has it all",
        )


def unavailable(
    twin: Twin, missing: Sequence[str], error: UnsatisfiableError | None
) -> UnsatisfiableError:
    return UnsatisfiableError(
        "some of the host's versions are not available",
        where=twin.host,
        got="; ".join(missing) or (error.got if error else ""),
        expected="each in an index of its platform at this very version",
        hint=HELP if missing else "the host's wheels contradict each other or the catalog",
    )


@dataclass(frozen=True)
class Twin:
    """What a host has installed: its packages, and the wheels of its environment, by version."""

    host: str
    platform: Platform
    packages: Mapping[str, str] = field(default_factory=dict)
    wheels: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    cudnn: str = ""  # "8.1.0", from cudnn_version.h
