"""The variables that are ours in an inventory, and the rules that judge their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from provision.models import Wish

WISH = "gpu_stack"
# A host's platform and GPUs, where they are known before the host is asked.
PLATFORM = "gpu_platform"
MODELS = "gpu_models"


class OptionRule(Protocol):
    """A role variable as the inventory's check needs it; `provision.roles` provides it."""

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
    """A fault in one host's variables: the variable, and the parts of the error message."""

    word: str
    message: str
    got: str = ""
    expected: str = ""
    hint: str = ""


class Judge(Protocol):
    """A rule over several variables of a host; `provision.roles` provides it.

    `names` are the variables that it reads; without the first of them it does not apply.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    def fault(
        self, values: Mapping[str, Any], wish: Wish, written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault, or None.

        `values` are those of the variables that are set; `written` finds the place of a text.
        """
        ...


@dataclass(frozen=True)
class Words:
    """Our vocabulary in an inventory: role options, and the prefixes that look like ours."""

    options: Mapping[str, OptionRule]
    prefixes: tuple[str, ...]
    judges: tuple[Judge, ...] = ()
