"""Errors of a card's memory, and the rows and pages that it has given up.

The rules are NVIDIA's: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (rows, Ampere and
newer) and https://docs.nvidia.com/deploy/dynamic-page-retirement/ (pages, before).
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# A card has room for so many retired pages; one that is full is to be replaced.
PAGES = 64


def ecc(gpu: dict[str, Any]) -> dict[str, Any]:
    """No error that ECC could not correct since the driver was loaded."""
    errors = gpu["ecc"]
    if errors is None:
        return not_applicable("the card has no ECC")
    if not errors["mode"]:
        return not_applicable("ECC is off")
    evidence = [
        "{0} corrected and {1} uncorrected in the card's life".format(
            _number(errors["corrected_ever"]), _number(errors["uncorrected_ever"])
        )
    ]
    if errors["uncorrected"]:
        reason = "{0} uncorrected memory errors since the driver was loaded".format(
            errors["uncorrected"]
        )
        return finding(FAILED, reason, evidence, action="reset", threshold=0, source="NVIDIA")
    if errors["uncorrected"] is None:
        return not_applicable("the driver does not count memory errors")
    reason = "no uncorrected memory error since the driver was loaded"
    return ok(reason, evidence=evidence, threshold=0, source="NVIDIA")


def rows(gpu: dict[str, Any]) -> dict[str, Any]:
    """The card could replace every row of memory that went bad."""
    state = gpu["rows"]
    if state is None:
        return not_applicable("the card remaps no rows")
    evidence = [
        "{0} rows remapped after corrected errors, {1} after uncorrected ones".format(
            state["corrected"], state["uncorrected"]
        )
    ]
    if state["failed"]:
        reason = "a bad row of memory could not be remapped"
        return finding(FAILED, reason, evidence, action="service")
    if state["pending"]:
        return finding(DEGRADED, "a row is remapped at the next reset", evidence, action="reset")
    return ok("no row waits to be remapped", evidence=evidence)


def pages(gpu: dict[str, Any]) -> dict[str, Any]:
    """Fewer retired pages than the card has room for, and none that waits for a reboot."""
    state = gpu["pages"]
    if state is None:
        return not_applicable("the card retires no pages")
    total = state["single"] + (state["double"] or 0)
    double = _number(state["double"])
    words = "{0} retired, {1} of them for a double bit error".format(total, double)
    if total >= PAGES:
        reason = "{0} pages of memory are retired".format(total)
        return finding(FAILED, reason, [words], action="service", threshold=PAGES, source="NVIDIA")
    if state["pending"]:
        return finding(DEGRADED, "a page is retired at the next reset", [words], action="reset")
    return ok(words, threshold=PAGES, source="NVIDIA")


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)


GPU = (("ecc", ecc), ("rows", rows), ("pages", pages))
