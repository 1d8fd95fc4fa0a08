"""States of hosts, a file for each component: those that must turn a check red, and a rule's.

A file in `checks` or `rules` is read because it is there. Its `states()` yields the states of
check_states.py or of rule_states.py, which say what a state is and judge it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent


def files(package: str) -> list[ModuleType]:
    """The files of `checks` or `rules`, by name."""
    names = sorted(path.stem for path in (HERE / package).glob("[!_]*.py"))
    return [importlib.import_module(f"{__name__}.{package}.{name}") for name in names]


def collected(package: str) -> list[Any]:
    """What all of them yield."""
    return [state for file in files(package) for state in file.states()]
