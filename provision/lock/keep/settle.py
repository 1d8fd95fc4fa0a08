"""A driver that the indices have: the locked one, else the next of its branch.

Pure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from packaging.version import Version

from provision.catalog import Catalog, DriverRow
from provision.errors import UnsatisfiableError
from provision.lock.keep.held import Held, Upgrade
from provision.lock.model import stacks_of
from provision.resolve import Choice, Stack
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Indices, upstream


def has_driver(row: DriverRow, indices: Indices) -> bool:
    """Whether the indices have this driver whole."""
    branch = Branch(row.version, frozenset(row.branch_sources))
    try:
        universe = Universe.of(indices.for_driver(row))
        close(universe, [*row.userspace, *indices.kernel_of(row)], branch)
    except UnsatisfiableError:
        return False
    return True


def locked_driver(choice: Choice, found: Sequence[Held], upgrade: Upgrade) -> str:
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
