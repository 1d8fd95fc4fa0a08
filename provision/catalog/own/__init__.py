"""Facts about components that a wish alone asks for, a file for each and its rows beside it.

A file has the component's name, its rows are in the .yml of that name, and it has these:

ROWS      {part of the catalog: the type of its rows}
IDENTITY  {part: the fields that identify a row}
NAMED     {part whose rows are named: "part.field" that name them}
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
