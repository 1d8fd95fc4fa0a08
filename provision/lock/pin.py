"""A row of the lock with the versions that one host has: a working host's twin.

What was locked is what the host has, or nothing is locked. Pure.
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

# A host's twin


def pinned_choice(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    twin: Twin,
    found: Mapping[str, Indices],
) -> tuple[int, Choice]:
    """The place and the choice of the host's row, with the versions that the host has."""
    wish = fleet.hosts[twin.host]
    # Of the rows for its wish and platform that of its GPUs' generations.
    rows = [row_of(one.choice) for one in explain(facts, fleet, twin.host)]
    own = [
        (number, choice)
        for number, choice in enumerate(choices)
        if choice.platform.platform == twin.platform and row_of(choice) in rows
    ]
    if not own:
        said = f"{twin.platform.distribution} {twin.platform.release} {twin.platform.architecture}"
        raise UnsatisfiableError(
            "its platform can't have its gpu_stack",
            where=twin.host,
            got=said,
            expected=" or ".join(c.platform.title for c in choices if c.wish == wish),
        )
    number, choice = own[0]
    _check_wish(twin, choice)
    parts: list[tuple[str, dict[str, str]]] = []
    driver = _driver_of(facts, choice, twin)
    branch = driver.split(".")[0]
    # Its branch alone: another one could serve its wish as well.
    mine = [r for r in facts.drivers if r.platform != choice.platform.id or r.branch == branch]
    facts = facts.model_copy(update={"drivers": mine})
    parts.append(("nvidia_driver", {"version": driver, "branch": branch}))
    cudnn = _cudnn_of(facts, choice, twin)
    if cudnn is not None:
        parts.append(("cudnn", cudnn))
    parts.append(("tensorflow", {"version": twin.wheels["tensorflow"], "python": twin.python}))
    narrow = facts
    for component, part in parts:
        narrowed = keep.narrowed_to(narrow, choice, component, part)
        one = keep.resolved(narrowed, fleet, choice) if narrowed is not None else None
        if narrowed is None or one is None:
            raise UnsatisfiableError(
                f"no stack for its wish has its {component}",
                where=twin.host,
                got=f"{component} {part['version']}",
                expected=f"{component} {keep.version_of(choice.stack, component)}",
                hint="`provision catalog` shows what runs where",
            )
        narrow, choice = narrowed, one
    index = found[choice.platform.id]
    settled, _notes = keep.settle(facts, own[0][1], index)
    _check_packages(twin, index, choice, settled)
    return number, choice


def _check_wish(twin: Twin, choice: Choice) -> None:
    """The host must be what its wish says. InputError naming both."""
    wish = choice.wish
    asked = [
        ("tensorflow", wish.tensorflow, twin.wheels["tensorflow"]),
        ("python", wish.python, twin.python),
        ("cudnn", wish.cudnn.version if wish.cudnn else None, twin.cudnn),
    ]
    for word, wanted, has in asked:
        if wanted and has and not _agree(wanted, has):
            raise _contradicts(twin, word, wanted, has)
    branch = wish.driver_branch
    if branch:
        for root in choice.stack.driver.userspace:
            has = upstream(twin.packages.get(root, ""))
            if has and not _agree(branch, has):
                raise _contradicts(twin, "driver_branch", branch, has)


def _contradicts(twin: Twin, word: str, wanted: str, has: str) -> InputError:
    return InputError(
        "the host is not what its gpu_stack says",
        where=twin.host,
        got=f"{word} {has} on the host",
        expected=f'{word}: "{wanted}", as the inventory says',
        hint="change its gpu_stack, or lock from another host",
    )


def _agree(one: str, other: str) -> bool:
    """As far as both say: 8.1.0.77 and 8.1.0 agree, and so do 2.9 and 2.9.3."""
    try:
        a, b = Version(one).release, Version(other).release
    except InvalidVersion:
        return one == other
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
    """The catalog's archive of the host's cuDNN; None where it can't or need not be told."""
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


def _check_packages(twin: Twin, found: Indices, pin: Choice, near: Choice) -> None:
    """Each package of the stack that the host has must be in an index at its very version.

    A driver that has left the indices can't be closed over there: one that is `near` has the names.
    """
    there = {(package.name, package.version) for package in found.packages}
    driver = pin.stack.driver
    names = {*driver.userspace, *driver.kernel, *driver.desktop}
    for choice in (pin, near):
        try:
            names |= set(package_names(choice.stack, found))
        except UnsatisfiableError:
            continue
    absent = [
        f"{name} {twin.packages[name]}"
        for name in sorted(names)
        if name in twin.packages and (name, twin.packages[name]) not in there
    ]
    if absent:
        raise unavailable(twin, absent, None)


def check_twin(made: Lock, stack: str, twin: Twin) -> None:
    """What was locked is what the host has, or nothing is locked."""
    packages = made.details["packages"][stack]
    part = made.stacks[stack]
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
    lacking = sorted(name for name in needed if name not in twin.packages)
    lacking += sorted(name for name in part["tensorflow"]["wheels"] if name not in twin.wheels)
    if lacking:
        raise InputError(
            "the host is not what its gpu_stack says",
            where=twin.host,
            got=f"it lacks {', '.join(lacking)}",
            expected=f"all of {stack}",
            hint="`provision plan` tells what a host lacks; lock from one that has it all",
        )


def unavailable(
    twin: Twin, absent: Sequence[str], error: UnsatisfiableError | None
) -> UnsatisfiableError:
    return UnsatisfiableError(
        "not all that the host has can be had",
        where=twin.host,
        got="; ".join(absent) or (error.got if error else ""),
        expected="each in an index of its platform at this very version",
        hint=HELP if absent else "the host's wheels contradict each other or the catalog",
    )


@dataclass(frozen=True)
class Twin:
    """A host as it is: exact versions of its packages and of the wheels in its environment."""

    host: str
    platform: Platform
    packages: Mapping[str, str] = field(default_factory=dict)
    wheels: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    cudnn: str = ""  # "8.1.0", as cudnn_version.h says it
