"""The modules of the components, found by the registry: a new component's folder is enough."""

from __future__ import annotations

import importlib

from .components import COMPONENTS

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def components() -> list[Any]:
    """The component's packages, each with NAME, look and differ, in the order of application."""
    return [_module(component.name) for component in COMPONENTS]


def rule_modules() -> list[Any]:
    """Their modules with preflight rules, RULES."""
    return [
        _module(f"{component.name}.{part}") for component in COMPONENTS for part in component.rules
    ]


def _module(name: str) -> Any:
    return importlib.import_module(f".components.{name}", __package__)
