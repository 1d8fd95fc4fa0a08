"""Refuses a bundle that this host can't be brought to its lock from, before anything is touched."""

from __future__ import annotations

from .host import bundle
from .rules import Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .host.context import Context
    from .shapes import Changes, Facts, Options, Reasons, Row


def look(context: Context) -> dict[str, Any] | None:
    """{place, lock, platforms}, or {message, hint} of one that can't be used; None without one."""
    try:
        host_bundle = bundle.of_host(context)
    except bundle.UnfitError as error:
        return {"message": str(error), "hint": error.hint}
    return host_bundle and {
        "place": host_bundle.place,
        "lock": host_bundle.lock,
        "platforms": host_bundle.platforms,
    }


def unfit(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    host_bundle = facts["preflight"].get("bundle")
    if not host_bundle:
        return []
    if "message" in host_bundle:
        return [(host_bundle["message"], host_bundle["hint"])]
    error = bundle.misfit(host_bundle, facts["lock_digest"], facts["platform"])
    return [] if error is None else [(str(error), error.hint)]


FACTS = {"bundle": look}
RULES = (Rule("bundle", None, True, unfit),)
