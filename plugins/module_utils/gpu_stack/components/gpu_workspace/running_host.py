"""The module's own host as a Context, as the look has it."""

from __future__ import annotations

from ...host.context import Context, Result
from ...type_checking import TYPE_CHECKING
from . import wished
from .program import files, programs

if TYPE_CHECKING:
    from typing import Any


def context(wish: dict[str, Any]) -> Context:
    return Context(root=files.ROOT, options=wished.options(wish), runner=_run)


def _run(argv: list[str]) -> Result:
    return Result(*programs.call(list(argv)))
