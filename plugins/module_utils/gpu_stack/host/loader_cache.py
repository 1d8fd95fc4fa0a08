"""Rebuilds the dynamic loader's cache where the loader would not find what it has to."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING
from . import loader
from .context import Context, run_program
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

# Seconds for ldconfig, which reads each library's beginning.
PATIENCE = 600.0


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `loader_cache`; RefusalError."""
    outdated = loader.outdated(Context(), params["libraries"], params["directories"])
    changed = bool(params["renewed"] or outdated)
    if changed and not check_mode:
        answer = run_program([loader.PROGRAM], patience=PATIENCE)
        if answer.rc != 0:
            raise RefusalError(f"ldconfig failed: {answer.err.strip() or answer.out.strip()}")
    return {"changed": changed, "outdated": outdated}
