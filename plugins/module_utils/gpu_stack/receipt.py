"""The receipt of the last finished run, for rollback and for changes since then.

The plan never takes the receipt's word for what is installed. But a host whose run died, or whose
proof failed, may look right without ever having been proven: by the mark of an unfinished run, and
the digest in the receipt, the next run proves it.
"""

from __future__ import annotations

import os

from .change import change
from .host import mapping, modes
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .host.context import Context
    from .shapes import Changes

NAME = "receipt"
PATH = "/var/lib/provision/receipt.json"
UNFINISHED = "/var/lib/provision/unfinished.json"


def unfinished(context: Context) -> bool:
    """True when a run has begun on this host and has not finished."""
    return context.exists(UNFINISHED)


def fault(context: Context) -> str | None:
    """What keeps the receipt from being root's and readable for all; None where nothing does."""
    faults = modes.faults(context, [os.path.dirname(PATH), PATH])
    return min(faults.items())[1][0] if faults else None


def differ(
    digest: str | None,
    receipt: dict[str, Any] | None,
    unfinished: bool,
    absent: Sequence[str] = (),
    fault: str | None = None,
) -> Changes:
    """The changes for a pending verification, [] without one.

    It is pending where the last run did not finish, was for another lock, or removed other
    components than `absent`. `fault`: what `fault` returns of the receipt.
    """
    if unfinished:
        return [change(NAME, "proof", "unfinished", "proven", "the last run did not finish")]
    digest_before = (receipt or {}).get("lock_digest")
    if digest_before == digest:
        before = sorted((receipt or {}).get("absent") or [])
        if before == sorted(absent):
            if fault is None:
                return []
            reason = "rollback believes it, and verify reads it as an ordinary user"
            return [change(NAME, PATH, fault, "root's, readable by all", reason)]
        reason = "other components are set to absent than in the last run"
        old, new = (", ".join(names) or "none" for names in (before, sorted(absent)))
        return [change(NAME, "absent components", old, new, reason)]
    reason = (
        "the last run was for another lock" if digest_before else "no run has finished here yet"
    )
    return [change(NAME, "proof", digest_before, digest, reason)]


def look(context: Context) -> dict[str, Any] | None:
    """The receipt as it was written; None when there is none or it can't be read."""
    return mapping.of(context.read(PATH))


def summary(receipt: dict[str, Any] | None) -> dict[str, Any] | None:
    """The receipt without its list of changes, which is as long as that run's work was."""
    if receipt is None:
        return None
    return {
        key: receipt.get(key) for key in ("format", "lock_digest", "stack", "written", "absent")
    }
