"""Resolves the wheels of TensorFlow's stacks: several at once, and the same question only once.

uv takes some seconds for each, nearly all of them waiting for the index. A lab with two hundred
wishes waited 45 minutes for questions of which most were the same as before.
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

# uv sends many requests at once itself, and each uv may need some hundred megabytes.
AT_ONCE = 8


@dataclass(frozen=True)
class Question:
    """What uv resolves. Stacks that differ in their driver alone share a question."""

    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    prefer: tuple[tuple[str, str], ...]
    python: str
    platform: str

    @classmethod
    def of(cls, stack: Stack, prefer: Mapping[str, str], *, exactly: bool = False) -> Question:
        """The question for a stack; with `exactly` the preferred versions are required."""
        pins = [f"{name}=={version}" for name, version in prefer.items()] if exactly else []
        return cls(
            tuple(wanted(stack)),
            (*stack.constraints, *pins),
            tuple(prefer.items()),
            stack.python,
            stack.platform.wheel_platform,
        )

    def answer(self) -> str | UnsatisfiableError:
        """The locked requirements, or why there are none. MachineError without an index."""
        try:
            return wheels.requirements(
                self.requirements,
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
    """The answer to each question. Any other error than UnsatisfiableError ends them all."""
    answers: dict[Question, str | UnsatisfiableError] = {}
    distinct = list(dict.fromkeys(questions))
    pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    try:
        running = {pool.submit(question.answer): question for question in distinct}
        progress(f"wheels of {len(distinct)} environments")
        for done in concurrent.futures.as_completed(running):
            answers[running[done]] = done.result()
            progress(f"wheels: {len(answers)} of {len(distinct)} environments")
    finally:
        pool.shutdown(cancel_futures=True)
    return answers


def unchanged(
    question: Question, stack: Stack, held: Held | None, before: Lock | None
) -> str | None:
    """The locked requirements of a stack, where they still answer this question; else None.

    They do where none of them may move and they fulfil all requirements and constraints.
    """
    if held is None or before is None or before.requirements.get(stack.id) != held.requirements:
        return None
    if dict(question.prefer) != held.wheels or held.part["tensorflow"]["python"] != stack.python:
        return None
    complete = _fulfilled(question.requirements, held.wheels, needed=True)
    if complete and _fulfilled(question.constraints, held.wheels, needed=False):
        return held.requirements
    return None


def _fulfilled(requirements: Sequence[str], wheels: Mapping[str, str], *, needed: bool) -> bool:
    """Whether the wheels fulfil the requirements; with `needed` none may be missing."""
    versions = {canonicalize_name(name): version for name, version in wheels.items()}
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return False
        version = versions.get(canonicalize_name(requirement.name))
        if requirement.url or requirement.marker or (version is None and needed):
            return False
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            return False
    return True
