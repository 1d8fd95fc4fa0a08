"""The words that are ours in an inventory, and who judges what is said with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from provision.models import Wish

WISH = "gpu_stack"
# What a host is, for those who know it before the host is asked.
PLATFORM = "gpu_platform"
MODELS = "gpu_models"


class OptionRule(Protocol):
    """What the check needs to know of one role variable; the Python roles provide it."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> bool: ...
    @property
    def wish(self) -> str: ...
    @property
    def run_only(self) -> bool: ...
    def fault(self, value: object) -> str | None: ...


@dataclass(frozen=True)
class Fault:
    """What is wrong with the words of one host: the word, and what to say of it."""

    word: str
    message: str
    got: str = ""
    expected: str = ""
    hint: str = ""


class Judge(Protocol):
    """Looks at several variables of a host together; the Python roles provide it.

    `names`: what it reads, the first of them the one without which it has nothing to say.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    def fault(
        self, said: Mapping[str, Any], wish: Wish, written: Callable[[str], str]
    ) -> Fault | None:
        """`said` has the values of those that are set; `written` the place of a text in a file."""
        ...


@dataclass(frozen=True)
class Words:
    """Our vocabulary in an inventory: role options, and the prefixes that look like ours."""

    options: Mapping[str, OptionRule]
    prefixes: tuple[str, ...]
    judges: tuple[Judge, ...] = ()
