"""Files that hold a JSON object: records, notes and marks of this program."""

from __future__ import annotations

import json

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def of(text: str | None) -> dict[str, Any] | None:
    """The object that is the whole text; None where there is none: cut short, something else."""
    try:
        content = json.loads(text or "null")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
