"""A driver that the indices have: the locked version, else the newest of its branch.

Pure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from packaging.version import Version

from provision.catalog import Catalog
from provision.catalog.rows import DriverRow
from provision.errors import UnsatisfiableError
from provision.lock.keep.held import Held, Upgrade
from provision.lock.model import stacks_of
from provision.resolve import Choice, Stack
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Indices, upstream


def has_driver(row: DriverRow, indices: Indices) -> bool:
    """Whether the indices have all packages of this driver."""
    branch = Branch(row.version, frozenset(row.branch_sources))
    try:
        universe = Universe.of(indices.for_driver(row))
        close(universe, [*row.userspace, *indices.kernel_of(row)], branch)
    except UnsatisfiableError:
        return False
    return True


def in_index(choice: Choice, indices: Indices) -> bool:
    """Whether a choice's driver can be had: an installer always, else as an index has it."""
    row = choice.stack.driver
    return row.origin == "runfile" or has_driver(row, indices)


def locked_driver(choice: Choice, locked: Sequence[Held], upgrade: Upgrade) -> str:
    """The locked driver version, where it may stay and branch and source are the same; else ""."""
    if not locked or upgrade.moves("nvidia_driver"):
        return ""
    part, row = locked[0].part["nvidia_driver"], choice.stack.driver
    same = (part["branch"], part.get("source", "distribution")) == (row.branch, row.origin)
    return str(part["version"]) if same else ""


def settle(
    facts: Catalog, choice: Choice, indices: Indices, locked: str = ""
) -> tuple[Choice, list[str]]:
    """(the choice with a driver that the indices have, notes for the person).

    A driver that has left the archive is replaced by the newest of its branch: a security suite
    keeps only that. Without one the choice is returned unchanged, and `make` says what is missing.
    For Ubuntu's drivers and those in NVIDIA's repository the catalog has the branch and the index
    the versions: the `locked` one stays, else the newest is taken.
    """
    stack = choice.stack
    if stack.driver.origin == "runfile":
        return _with_run(facts, choice, locked), []
    if stack.driver.origin == "network" or choice.platform.distribution == "ubuntu":
        row = _of_index(choice, indices, locked)
        if row is None or row.version == stack.driver.version:
            return choice, []
        why = "the one that is locked" if row.version == locked else "the newest there"
        return _choice_with(choice, row, f"{row.version} is {why}"), []
    if has_driver(stack.driver, indices):
        return choice, []
    minimum = max(_driver_minimum(stack) for stack in stacks_of(choice))
    rows = [
        row
        for row in facts.drivers
        if row.platform == choice.platform.id
        and row.branch == stack.driver.branch
        and row.userspace
        and row.version != stack.driver.version
        and Version(row.version) >= minimum
    ]
    for row in sorted(rows, key=lambda r: Version(r.version), reverse=True):
        if has_driver(row, indices):
            gone = (
                f"driver {stack.driver.version} has left the archive, "
                f"{row.version} is the next of branch {row.branch}"
            )
            return _choice_with(choice, row, gone), [f"{choice.platform.title}: {gone}"]
    return choice, []


def _with_run(facts: Catalog, choice: Choice, locked: str) -> Choice:
    """The choice with the locked installer, where the catalog still has it."""
    stack = choice.stack
    if locked in ("", stack.driver.version) or "." in (choice.wish.driver_branch or ""):
        return choice
    for run in facts.nvidia_runfiles:
        if run.kind == "driver" and run.version == locked:
            update = {"version": locked, "url": run.url, "sha256": run.sha256 or ""}
            row = stack.driver.model_copy(update=update)
            return _choice_with(choice, row, f"{locked} is the one that is locked")
    return choice


def _of_index(choice: Choice, indices: Indices, locked: str) -> DriverRow | None:
    """The driver of the choice's branch of which an index has all packages, or None."""
    row = choice.stack.driver
    packages = indices.repositories[row.url].packages if row.url else indices.packages
    versions = {upstream(p.version) for p in packages if p.name == row.userspace[0]}
    if "." in (choice.wish.driver_branch or ""):
        versions &= {row.version}
    minimum = max(_driver_minimum(stack) for stack in stacks_of(choice))
    fit = [
        version for version in versions
        if re.fullmatch(r"\d+(\.\d+)+", version)
        and version.startswith(f"{row.branch}.")
        and Version(version) >= minimum
    ]  # fmt: skip
    fit.sort(key=lambda version: (version == locked, Version(version)), reverse=True)
    candidates = (row.model_copy(update={"version": version}) for version in fit)
    return next((driver for driver in candidates if has_driver(driver, indices)), None)


def _choice_with(choice: Choice, row: DriverRow, why: str) -> Choice:
    stack, *beside = [_with_driver(stack, row, why) for stack in stacks_of(choice)]
    return dataclasses.replace(choice, stack=stack, beside=tuple(beside))


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
    minimums = [stack.cuda.driver_minimum, *([row.driver_minimum] if row else [])]
    return max(Version(minimum) for minimum in minimums)
