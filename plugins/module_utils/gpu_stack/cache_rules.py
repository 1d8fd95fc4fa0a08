"""Refuses a cache that this host can't be brought to its lock through, or goes on without it."""

from __future__ import annotations

from .host import bundle, cache
from .host.origin import DIRECT
from .rules import Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .host.context import Context
    from .shapes import Changes, Facts, Options, Reasons, Row


def look(context: Context) -> dict[str, Any] | None:
    """{place, lock, platforms}, or {message, hint, goes_on} of one that can't be used; None without
    one.
    """
    wish = context.options.get(cache.OPTION)
    # From a bundle nothing is fetched.
    if not wish or context.options.get("gpu_bundle"):
        return None
    try:
        fleet_cache = cache.read(wish)
    except cache.UnfitError as error:
        direct = context.options.get(cache.FALLBACK) == DIRECT
        return {"message": str(error), "hint": error.hint, "goes_on": error.silent and direct}
    return {
        "place": fleet_cache.place,
        "lock": fleet_cache.lock,
        "platforms": fleet_cache.platforms,
    }


def unfit(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    seen = facts["preflight"].get("cache")
    if not seen or seen.get("goes_on"):
        return []
    if "message" in seen:
        return [(seen["message"], seen["hint"])]
    error = bundle.misfit(seen, facts["lock_digest"], facts["platform"], cache.UnfitError)
    return [] if error is None else [(str(error), error.hint)]


def passed_by(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    seen = facts["preflight"].get("cache")
    if not seen or not seen.get("goes_on"):
        return []
    return [(seen["message"] + "; this host fetches from the lock's own addresses", seen["hint"])]


FACTS = {"cache": look}
RULES = (
    Rule("cache", None, True, unfit),
    Rule("cache-silent", None, False, passed_by),
)
