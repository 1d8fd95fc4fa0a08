"""What the search knows of components that a wish alone asks for, a file for each.

A file has the component's name, and these:

WORD                 its word in a wish; the search's variable and the stack's `own` have it too
TITLE                what a refusal calls it
RULES                its rules
candidates(catalog)  its versions as the catalog has them, the best first; None, for none, is last;
                     each has a `version`, and a `mark`: its part of the stack's id
demands(wish)        what the wish demands of it
reason(value, wish)  why this one was chosen, in a sentence
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
