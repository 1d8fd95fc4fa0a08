"""The receipt that a finished run leaves on the host."""

from __future__ import annotations

from ..cures import CURES, Cure
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed

CURES["receipt.lock"] = Cure(
    ("receipt", "all"),
    "the last run used another lock than the one here: see `git log lock.yml`",
)


@check("receipt.lock", "The receipt on the host names this lock")
def receipt_names_the_lock(seen: Seen) -> Verdict:
    receipt = seen.probe["receipt"]
    if receipt.get("error"):
        return failed(str(receipt["error"]), f"a finished run writes it: {AGAIN}")
    if seen.lock_digest is None:
        return not_applicable("there is no lock here to compare with")
    if receipt.get("lock_digest") == seen.lock_digest:
        return passed(f"written {receipt.get('written')}")
    return failed(
        f"the last finished run had another lock ({receipt.get('lock_digest')})",
        AGAIN,
    )
