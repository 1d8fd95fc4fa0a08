"""What transaction.py asks about the driver: parts of another one, and packages of kernels."""

from __future__ import annotations

from ...change import change
from ...rules import some_packages
from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Options, State

OF_KERNEL = driver_method.OF_KERNEL


def parts(transaction: dict[str, Any]) -> dict[str, str]:
    """{package: version} of what apt would remove and is a part of a driver."""
    return {
        name: version
        for name, version, _why in transaction.get("removed") or []
        if driver_method.DRIVER.match(name)
    }


def unplanned(
    removed: list[Any], preflight: dict[str, Any]
) -> tuple[list[Any], list[tuple[str, str]]]:
    """(parts of a driver among apt's removals, [(message, hint)] about them). Pure."""
    drivers = [entry for entry in removed if driver_method.DRIVER.match(entry[0])]
    # Another rule names those, with the same way out.
    foreign = preflight.get("foreign") or []
    replaced = [entry for entry in drivers if entry[0] not in foreign]
    if not replaced:
        return drivers, []
    message = "parts of another NVIDIA driver cannot stay beside the lock's versions: "
    hint = "nvidia_driver_switch: switch lets the run remove them; or apt-get remove " + (
        " ".join(entry[0] for entry in replaced)
    )
    return drivers, [(message + some_packages(replaced), hint)]


def differ(component: str, state: State, options: Options) -> Changes:
    """The changes for parts of another driver that apt removes. Pure.

    A driver that our own pins do not name is somebody else's: its parts go only where the wish
    says to switch.
    """
    if state.get("method") is None and options.get("nvidia_driver_switch") != "switch":
        return []
    leftovers = state.get("leftovers") or {}
    displaced = state.get("displaced") or {}
    reason = "it works with another version of the driver only"
    return [
        change(component, name, displaced[name], None, reason)
        for name in sorted(displaced)
        if name not in leftovers
    ]
