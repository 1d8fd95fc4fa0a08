"""The receipt that a finished run leaves on the host."""

from __future__ import annotations

from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed


@check("receipt.lock", "The receipt on the host names this lock")
def receipt_names_the_lock(seen: Seen) -> Verdict:
    found = seen.probe["receipt"]
    if found.get("error"):
        return failed(str(found["error"]), f"a finished run writes it: {AGAIN}")
    if seen.lock_digest is None:
        return not_applicable("there is no lock here to compare with")
    if found.get("lock_digest") == seen.lock_digest:
        return passed(f"written {found.get('written')}")
    return failed(
        f"the host was last finished with another lock ({found.get('lock_digest')})",
        AGAIN,
    )
