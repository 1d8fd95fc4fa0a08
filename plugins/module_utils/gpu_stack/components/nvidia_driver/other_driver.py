"""A driver on the host that the role did not install, or installed from another source.

Two sources on one host break the driver, so the other one is removed before the new one comes; and
only where the wish says so.
"""

from __future__ import annotations

from ...host.context import Context
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from .. import nvidia_driver
from . import driver_method
from .driver_method import DISTRIBUTION, NETWORK, RUNFILE

if TYPE_CHECKING:
    from typing import Any

SOURCES = {
    DISTRIBUTION: "the platform's packages",
    NETWORK: "NVIDIA's repository",
    RUNFILE: "NVIDIA's .run file",
}
SWITCH = "switch"


def settle(params: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    return dict(check(Context(), **params), changed=False)


def look(context: Context, source: str, parts: list[str]) -> dict[str, Any]:
    """{"came", "packages", "branch", "runfile", "source", "here"} of a driver beside the wish's.

    came: the source that our pins record, or "". packages: those that are removed first. branch:
    those of another branch from the same source, which go in the transaction that brings the new
    one. runfile: whether the .run file's uninstaller is there. source: whether packages of the
    same names came from the other repository. here: whether anything goes first.
    """
    pins = context.read(nvidia_driver.PINS)
    came = driver_method.of_pins(pins)
    names = list(driver_method.leftovers(context, {"source": source}, parts, pins))
    same = source != RUNFILE and came == source
    packaged = any(driver_method.DRIVER.match(name.split(":")[0]) for name in context.packages)
    driver: dict[str, Any] = {
        "came": came or "",
        "packages": [] if same else names,
        "branch": names if same else [],
        "runfile": source != RUNFILE and context.lstat(driver_method.UNINSTALLER) is not None,
        "source": source != RUNFILE
        and came in (DISTRIBUTION, NETWORK)
        and came != source
        and packaged,
    }
    driver["here"] = bool(driver["packages"] or driver["runfile"] or driver["source"])
    return driver


def check(context: Context, source: str, parts: list[str], switch: str) -> dict[str, Any]:
    """What look() returns. RefusalError where another driver is there and is not to be removed."""
    driver = look(context, source, parts)
    if driver["here"] and switch != SWITCH:
        drivers = []
        if driver["runfile"]:
            drivers.append("the .run file's (nvidia-uninstall removes it)")
        if driver["packages"]:
            drivers.append("packages " + ", ".join(driver["packages"]))
        if driver["source"]:
            drivers.append("one of " + SOURCES[driver["came"]])
        raise RefusalError(
            f"The driver is to come from {SOURCES[source]}, and another one is here:"
            f' {"; ".join(drivers)}. Set nvidia_driver_switch to "switch", and the run removes it'
            " first. Nothing was touched."
        )
    return driver
