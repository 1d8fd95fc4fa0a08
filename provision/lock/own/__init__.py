"""The lock's side of components that no other component's part depends on, a file for each.

A file has the component's name, and these functions:

version(stack)             its version as the lock has it; "" where the stack has none
urls(stack)                the repositories that its packages come from
repositories(stacks, reader)   {url: repository} of them, read
part(stack, indices, prefer)   (its part of the lock, its packages); ({}, {}) where there is none
narrowed(facts, part)      the catalog with the locked version of it alone; None where it lacks it

and, optional, TABLES: its role's tables of packages that it installs of the distribution's own,
which a bundle needs: "engine" for __<role>_engine.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from provision.registry import LOCKED

_FILES = {module.name for module in pkgutil.iter_modules(__path__)}
# By component, in the order in which a run applies them.
OWN: Mapping[str, Any] = {
    name: importlib.import_module(f"{__name__}.{name}") for name in LOCKED if name in _FILES
}
