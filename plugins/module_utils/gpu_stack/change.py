"""The two words a plan is made of: a change and a blocker.

They are plain dicts because they travel as JSON from the host to the callback, the report and
the live view; these two functions are the only place that spells their keys.
"""

from __future__ import annotations

from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def change(
    component: str | None,
    item: str,
    old: Any,
    new: Any,
    reason: str,
    reboot: bool = False,
    repair: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One thing that is not as wished.

    `item` is what a person would call it (a package, a soname, a file), `old` and `new` are short
    texts or None. `repair` is extra role variables (`{"cuda_reinstall": ["libcusolver11"]}`) for
    damage that the role's ordinary tasks would not see.
    """
    return {
        "component": component,
        "item": item,
        "from": old,
        "to": new,
        "reason": reason,
        "reboot": bool(reboot),
        "selected": True,
        "repair": repair,
    }


def blocker(id: str, component: str | None, message: str, hint: str) -> dict[str, Any]:  # noqa: A002  the key's own name
    """One reason not to begin: `message` says what is so, `hint` the way out."""
    return {"id": id, "component": component, "message": message, "hint": hint}


def is_touched(changes: list[dict[str, Any]], component: str) -> bool:
    """True where a selected change is the component's."""
    return any(entry["component"] == component and entry["selected"] for entry in changes)
