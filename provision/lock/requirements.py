"""Asks the index of wheels what stacks of TensorFlow are made of: several at once, none twice.

A question takes uv some seconds, nearly all of them spent waiting for the index. A lab with two
hundred wishes waited 45 minutes for answers to questions of which most were the same as before.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision.errors import UnsatisfiableError
from provision.lock.keep import Held
from provision.lock.model import Lock
from provision.lock.parts import wanted
from provision.resolve import Stack
from provision.upstream import wheels

# uv asks for many files at once itself, and each of it may need some hundred megabytes.
AT_ONCE = 8


@dataclass(frozen=True)
class Question:
    """What uv is asked. Stacks with other drivers can have the same."""

    wanted: tuple[str, ...]
    constraints: tuple[str, ...]
    prefer: tuple[tuple[str, str], ...]
    python: str
    platform: str

    @classmethod
    def of(cls, stack: Stack, prefer: Mapping[str, str], *, exactly: bool = False) -> Question:
        """The question for a stack; `exactly`: with these versions or not at all."""
        pins = [f"{name}=={version}" for name, version in prefer.items()] if exactly else []
        return cls(
            tuple(wanted(stack)),
            (*stack.constraints, *pins),
            tuple(prefer.items()),
            stack.python,
            stack.platform.wheel_platform,
        )

    def asked(self) -> str | UnsatisfiableError:
        """The locked requirements, or why there are none. MachineError without an index."""
        try:
            return wheels.requirements(
                self.wanted,
                self.constraints,
                python=self.python,
                wheel_platform=self.platform,
                prefer=dict(self.prefer),
            )
        except UnsatisfiableError as error:
            return error


def ask(
    questions: Iterable[Question], progress: Callable[[str], None]
) -> dict[Question, str | UnsatisfiableError]:
    """The answers. The first error that is not about one question ends all of it."""
    found: dict[Question, str | UnsatisfiableError] = {}
    wanted = list(dict.fromkeys(questions))
    pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    try:
        running = {pool.submit(question.asked): question for question in wanted}
        progress(f"wheels of {len(wanted)} environments")
        for done in concurrent.futures.as_completed(running):
            found[running[done]] = done.result()
            progress(f"wheels: {len(found)} of {len(wanted)} environments")
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def unchanged(
    question: Question, stack: Stack, held: Held | None, before: Lock | None
) -> str | None:
    """The locked requirements of a stack, where they answer this question too; else None.

    They do where nothing of them may move and they fulfil all that is wanted now.
    """
    if held is None or before is None or before.requirements.get(stack.id) != held.requirements:
        return None
    if dict(question.prefer) != held.wheels or held.part["tensorflow"]["python"] != stack.python:
        return None
    wanted = _fulfilled(question.wanted, held.wheels, needed=True)
    if wanted and _fulfilled(question.constraints, held.wheels, needed=False):
        return held.requirements
    return None


def _fulfilled(asked: Sequence[str], wheels: Mapping[str, str], *, needed: bool) -> bool:
    """Are these versions such as is asked for? What is `needed` has to be there, too."""
    there = {canonicalize_name(name): version for name, version in wheels.items()}
    for text in asked:
        try:
            one = Requirement(text)
        except InvalidRequirement:
            return False
        version = there.get(canonicalize_name(one.name))
        if one.url or one.marker or (version is None and needed):
            return False
        if version is not None and not one.specifier.contains(version, prereleases=True):
            return False
    return True
