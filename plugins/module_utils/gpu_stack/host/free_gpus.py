"""Checks, right before the driver changes or the host reboots, that no process uses a GPU.

Preflight checks the same, but possibly hours before, and the driver's role works without it.
"""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING
from . import processes
from .context import Context
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:  # noqa: ARG001
    """The result of the module `gpu_processes`; RefusalError where they were waited for in vain.

    nvidia-smi is not asked: it may load the driver that is about to go.
    """
    return ask(Context(), **params)


def ask(context: Context, before: str, wait: int, waited: bool) -> dict[str, Any]:
    """{processes, changed}. `before`: the step, as in "Not going to ..."."""
    found = processes.holders(context)
    if found and waited:
        message = (
            "Not going to {0} while GPU processes run (waited {1} s): {2}. Run again when they "
            "have ended, or set nvidia_driver_wait_for_gpu_processes."
        ).format(before, wait, processes.in_words(found))
        raise RefusalError(message, processes=found)
    return {"processes": found, "changed": False}
