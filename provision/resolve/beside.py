"""Several TensorFlow environments on one host, which share its driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from provision.catalog.rows import PlatformRow
from provision.errors import InputError
from provision.models import CudnnWish, Gpu, Reason, Wish
from provision.resolve.solver import Solver
from provision.resolve.stack import Stack
from provision.resolve.words import and_list, unique


def side_by_side(
    solver: Solver, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu]
) -> tuple[Stack | None, tuple[Stack, ...] | None]:
    """(the stack of a wish, those beside it), on the first driver that serves them all.

    None for those beside it where no driver does.
    """
    first = solver.find(wish, platform, gpus)
    if first is None or not wish.beside:
        return first, ()
    branches = [d.branch for d in solver.catalog.drivers if d.platform == platform.id]
    on_other_branches = (
        solver.find(narrowed(wish, driver_branch=branch), platform, gpus)
        for branch in ([] if wish.driver_branch else branches)
    )
    for stack in (first, *on_other_branches):
        if stack is None or stack.missing:
            continue
        candidates = [_beside(solver, its_wish, platform, stack, gpus) for its_wish in wish.beside]
        beside = tuple(candidate for candidate in candidates if candidate is not None)
        if len(beside) == len(candidates):
            if stack is not first:
                stack = _with_driver_reason(stack, beside)
            return stack, beside
    return first, None


def refuse_twice(stacks: Sequence[Stack], owner: str) -> None:
    """InputError where two of a host's environments would have the same content."""
    environments: set[tuple[str, tuple[str, ...]]] = set()
    for stack in stacks:
        if (stack.tensorflow, stack.packages) in environments:
            raise InputError(
                f"TensorFlow {stack.tensorflow} stands twice in one gpu_stack",
                where=owner,
                got=f"TensorFlow {and_list([s.tensorflow for s in stacks])}",
                expected="every TensorFlow once, or with other packages",
            )
        environments.add((stack.tensorflow, stack.packages))


def _with_driver_reason(stack: Stack, beside: Sequence[Stack]) -> Stack:
    """The stack with the reason for its driver: that it serves those beside it, too."""
    versions = and_list(unique(neighbour.tensorflow for neighbour in beside))
    text = f"branch {stack.driver.branch} serves TensorFlow {versions} beside it as well"
    reasons = (
        Reason(reason.component, text) if reason.component == "nvidia_driver" else reason
        for reason in stack.reasons
    )
    return dataclasses.replace(stack, reasons=tuple(reasons))


def _beside(
    solver: Solver, wish: Wish, platform: PlatformRow, stack: Stack, gpus: Sequence[Gpu]
) -> Stack | None:
    """A stack with the driver of `stack`, and with its CUDA and cuDNN or wheels; or None."""
    wish = narrowed(wish, driver_branch=stack.driver.branch)
    if stack.driver.origin != "distribution":
        wish = narrowed(wish, driver_branch=stack.driver.version, driver_source=stack.driver.origin)
    if stack.driver.modules:
        wish = narrowed(wish, driver_modules=stack.driver.modules)
    tries = [narrowed(wish, cuda_source="wheels")]
    if stack.cuda.origin != "wheels":
        own = stack.cudnn.sha256 if stack.cudnn.origin == "own" else None
        cudnn = CudnnWish(stack.cudnn.version, stack.cudnn.cuda if own else None, own)
        shared = narrowed(wish, cuda_source=stack.cuda.origin, cuda=stack.cuda.version)
        literal = {**shared.literal, "cudnn": dataclasses.asdict(cudnn)}
        tries.insert(0, dataclasses.replace(shared, cudnn=cudnn, literal=literal))
    for attempt in tries:
        candidate = solver.find(attempt, platform, gpus)
        if candidate is None or candidate.missing:
            continue
        if candidate.driver.version == stack.driver.version:
            return _with_shared_reasons(candidate, stack)
    return None


def _with_shared_reasons(stack: Stack, first: Stack) -> Stack:
    """The stack with the reason "shared" for the parts that it has from the first stack."""
    shared = {"nvidia_driver"} | ({"cuda", "cudnn"} if stack.cuda.origin != "wheels" else set())
    text = f"shared with TensorFlow {first.tensorflow}, beside which it is"
    reasons = (
        Reason(reason.component, text) if reason.component in shared else reason
        for reason in stack.reasons
    )
    return dataclasses.replace(stack, reasons=tuple(reasons))


def narrowed(wish: Wish, **more: str) -> Wish:
    """The wish with further words, also in its literal, by which `Solver.find` caches."""
    changes: dict[str, Any] = {**more, "literal": {**wish.literal, **more}}
    return dataclasses.replace(wish, **changes)
