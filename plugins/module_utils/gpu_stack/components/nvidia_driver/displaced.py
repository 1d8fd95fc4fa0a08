"""Parts of another driver that apt removes to install the lock's versions."""

from __future__ import annotations

from ...change import change
from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Options, State


def parts(transaction: dict[str, Any]) -> dict[str, str]:
    """{package: version} of what apt would remove and is a part of a driver."""
    return {
        name: version
        for name, version, _why in transaction.get("removed") or []
        if driver_method.DRIVER.match(name)
    }


def differ(component: str, state: State, options: Options) -> Changes:
    """The changes for parts of another driver that apt removes. Pure.

    A driver that our own pins do not name is somebody else's: its parts go only where the wish
    says to switch.
    """
    if state.get("method") is None and options.get("nvidia_driver_switch") != "switch":
        return []
    known = state.get("leftovers") or {}
    displaced = state.get("displaced") or {}
    reason = "it works with another version of the driver only"
    return [
        change(component, name, displaced[name], None, reason)
        for name in sorted(displaced)
        if name not in known
    ]
