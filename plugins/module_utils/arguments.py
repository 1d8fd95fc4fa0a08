"""Forms of arguments that several modules have."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def one_of(*words: str, default: str | None = None) -> dict[str, Any]:
    """One of these words; required without a default."""
    spec: dict[str, Any] = {"type": "str", "choices": list(words)}
    return dict(spec, required=True) if default is None else dict(spec, default=default)
