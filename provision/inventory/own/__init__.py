"""The words of a wish that ask for one component alone, a file for each.

A file has the component's name, and these:

WORD                  its word in a wish
EXAMPLE, MEANING      a value of it, and what it means
COMMENT               what `provision init` writes above it
wished(value, where)  the checked value, as the wish has it; InputError for a fault
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
