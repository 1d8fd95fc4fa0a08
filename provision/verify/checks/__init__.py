"""What must be true of a proven host: each check turns a probe into a verdict.

Pure functions of the probe's answer and the lock, so that each is tested on recorded good and bad
outputs. A check returns `passed`, `failed` (what is wrong, what cures it) or `not_applicable` with
a reason: a host that can't show something is never counted as passed. What can't be judged because
an earlier check failed is not applicable too: one cause, one failure.

A file holds the checks of one component, and has its name. They run in the order in which the
files are imported here: the host's, the components' in their order, the receipt's.
"""

from __future__ import annotations

import importlib

from .. import registered
from . import host  # before all others
from .answers import facts
from .beside import beside
from .check import CHECKS, Check, Seen, Verdict, failed, not_applicable, passed

for _name in registered.NAMES:
    importlib.import_module(f"{__name__}.{_name}")
importlib.import_module(f"{__name__}.receipt")

__all__ = [
    "CHECKS",
    "Check",
    "Seen",
    "Verdict",
    "beside",
    "facts",
    "failed",
    "host",
    "not_applicable",
    "passed",
]
