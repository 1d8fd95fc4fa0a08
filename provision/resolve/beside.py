"""Several TensorFlows on one host: environments beside each other on one driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from provision.catalog import PlatformRow
from provision.errors import InputError
from provision.models import CudnnWish, Gpu, Reason, Wish
from provision.resolve.solver import Solver
from provision.resolve.stack import Stack
from provision.resolve.words import and_list, unique


def side_by_side(
    solver: Solver, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu]
) -> tuple[Stack | None, tuple[Stack, ...] | None]:
    """The stack of a wish and those beside it, on the first driver that serves them all.

    Without such a driver None for those beside it.
    """
    first = solver.find(wish, platform, gpus)
    if first is None or not wish.beside:
        return first, ()
    branches = [d.branch for d in solver.catalog.drivers if d.platform == platform.id]
    others = (
        solver.find(narrowed(wish, driver_branch=one), platform, gpus)
        for one in ([] if wish.driver_branch else branches)
    )
    for stack in (first, *others):
        if stack is None or stack.missing:
            continue
        beside = [_beside(solver, one, platform, stack, gpus) for one in wish.beside]
        found = tuple(one for one in beside if one is not None)
        if len(found) == len(beside):
            if stack is not first:
                stack = _told_driver(stack, found)
            return stack, found
    return first, None


def refuse_twice(stacks: Sequence[Stack], owner: str) -> None:
    """InputError where two of a host's environments would be one and the same."""
    made: set[tuple[str, tuple[str, ...]]] = set()
    for one in stacks:
        if (one.tensorflow, one.packages) in made:
            raise InputError(
                f"TensorFlow {one.tensorflow} stands twice in one gpu_stack",
                where=owner,
                got=f"TensorFlow {and_list([stack.tensorflow for stack in stacks])}",
                expected="every TensorFlow once, or with other packages",
            )
        made.add((one.tensorflow, one.packages))


def _told_driver(stack: Stack, beside: Sequence[Stack]) -> Stack:
    """With the true reason for a driver that was taken for those beside it."""
    versions = and_list(unique(one.tensorflow for one in beside))
    text = f"branch {stack.driver.branch} serves TensorFlow {versions} beside it as well"
    reasons = (
        Reason(one.component, text) if one.component == "nvidia_driver" else one
        for one in stack.reasons
    )
    return dataclasses.replace(stack, reasons=tuple(reasons))


def _beside(
    solver: Solver, wish: Wish, platform: PlatformRow, stack: Stack, gpus: Sequence[Gpu]
) -> Stack | None:
    """A stack with the driver of `stack`, and with its CUDA and cuDNN or those of wheels."""
    wish = narrowed(wish, driver_branch=stack.driver.branch)
    if stack.driver.origin != "distribution":
        wish = narrowed(wish, driver_branch=stack.driver.version, driver_source=stack.driver.origin)
    tries = [narrowed(wish, cuda_source="wheels")]
    if stack.cuda.origin != "wheels":
        own = stack.cudnn.sha256 if stack.cudnn.origin == "own" else None
        cudnn = CudnnWish(stack.cudnn.version, stack.cudnn.cuda if own else None, own)
        shared = narrowed(wish, cuda_source=stack.cuda.origin, cuda=stack.cuda.version)
        literal = {**shared.literal, "cudnn": dataclasses.asdict(cudnn)}
        tries.insert(0, dataclasses.replace(shared, cudnn=cudnn, literal=literal))
    for one in tries:
        found = solver.find(one, platform, gpus)
        if found is not None and not found.missing and found.driver.version == stack.driver.version:
            return _told_beside(found, stack)
    return None


def _told_beside(found: Stack, first: Stack) -> Stack:
    """With reasons true of it: its driver, and CUDA that is not wheels, are the first one's."""
    shared = {"nvidia_driver"} | ({"cuda", "cudnn"} if found.cuda.origin != "wheels" else set())
    text = f"shared with TensorFlow {first.tensorflow}, beside which it is"
    reasons = (
        Reason(one.component, text) if one.component in shared else one for one in found.reasons
    )
    return dataclasses.replace(found, reasons=tuple(reasons))


def narrowed(wish: Wish, **more: str) -> Wish:
    """The wish with further words; its literal says them too, for it is what is remembered by."""
    changes: dict[str, Any] = {**more, "literal": {**wish.literal, **more}}
    return dataclasses.replace(wish, **changes)
