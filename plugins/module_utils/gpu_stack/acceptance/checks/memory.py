"""Errors of a card's memory, and the rows and pages that it has given up.

The rules are NVIDIA's: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (rows, Ampere and
newer; its "RMA policy" too) and https://docs.nvidia.com/deploy/dynamic-page-retirement/ (pages,
before).
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .. import own_word
from ..findings import DEGRADED, FAILED, finding, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# A card has room for so many retired pages; one that is full is to be replaced.
PAGES = 64
SPENT = (
    "the next uncorrected error there can't be remapped, and then the card is to be replaced: run "
    "`provision accept` again in some days"
)


def ecc(gpu: dict[str, Any]) -> dict[str, Any]:
    """No error that ECC could not correct since the driver was loaded; its SRAM is not worn out.

    NVIDIA's rule: more than 4 different parity errors, or 2 of SEC-DED, in one bank of SRAM set the
    driver's flag, and then the card is to be replaced
    (https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/rma-policy-thresholds-for-row-remapping.html).
    """
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
    sram = gpu["sram"] or {}
    if sram.get("exceeded"):
        words = "SRAM: {0} uncorrected parity errors in the card's life, {1} of SEC-DED"
        evidence.append(words.format(sram["parity_ever"], sram["secded_ever"]))
        reason = "more uncorrected errors of SRAM than NVIDIA's threshold"
        return finding(FAILED, reason, evidence, action="service")
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
    """The card could replace every row of memory that went bad, and can replace the next.

    A bank without a spare row is no reason to replace the card yet; the next uncorrected error in
    it is (NVIDIA's "RMA policy", as above). Memory that can't be repaired is judged as Xid 157.
    """
    state, evidence = gpu["rows"], _rows(gpu)
    if state and state["failed"]:
        reason = "a bad row of memory could not be remapped"
        return finding(FAILED, reason, evidence, action="service")
    if gpu["unrepairable"]:
        how = "ask the card's vendor: work may go on, and may meet the same error again"
        reason = "memory of the card can't be repaired"
        return finding(DEGRADED, reason, evidence, action="service", how=how)
    if state is None:
        return not_applicable("the card remaps no rows")
    if state["pending"]:
        return finding(DEGRADED, "a row is remapped at the next reset", evidence, action="reset")
    spent = (gpu["banks"] or {}).get("none")
    if spent:
        reason = "{0} bank{1} of memory without a spare row left".format(
            spent, "" if spent == 1 else "s"
        )
        return finding(
            DEGRADED, reason, evidence, action="watch", how=SPENT, threshold=0, source="NVIDIA"
        )
    return ok("no row waits to be remapped", evidence=evidence)


def _rows(gpu: dict[str, Any]) -> list[str]:
    """What is known of the rows that were remapped, and of those that are left."""
    state, banks = gpu["rows"], gpu["banks"]
    words = []
    if state:
        words.append(
            "{0} rows remapped after corrected errors, {1} after uncorrected ones".format(
                state["corrected"], state["uncorrected"]
            )
        )
    if banks:
        counts = ", ".join("{0} {1}".format(banks[name], name) for name in own_word.BANKS)
        words.append("banks of memory by the spare rows that are left: " + counts)
    return words


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
