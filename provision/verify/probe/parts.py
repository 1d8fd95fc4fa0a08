"""What components add to the answer, each in a module of its own here."""

from __future__ import annotations

from typing import Any

# Functions of (row, options) that return what they add; {} where the host has no such component.
PARTS: list[Any] = []


def part(function: Any) -> Any:
    """Registers a function in PARTS."""
    PARTS.append(function)
    return function
