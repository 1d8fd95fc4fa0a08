"""Checks, right before the driver changes or the host reboots, that nobody is interrupted.

Preflight checks the same, but possibly hours before, and the driver's role works without it.
"""

from __future__ import annotations

import functools
import time

from ..type_checking import TYPE_CHECKING
from . import people
from .context import Context, run_program
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any


# Seconds for one question to logind.
PATIENCE = 30.0
LOADED = "/sys/module/nvidia/version"
REBOOT = "reboot"
WAIT = "wait"
IGNORE = "ignore"


def host() -> Context:
    """The running system."""
    return Context(runner=functools.partial(run_program, patience=PATIENCE))


def look(context: Context, window: Any, wait: int = 0, now: float | None = None) -> dict[str, Any]:
    """{users, open, clock, until}: who is logged in, and the time now and in `wait` seconds.

    Raises ValueError where the maintenance window can't be read.
    """
    moment = time.time() if now is None else now
    clock = people.clock(moment)
    allowed = people.is_open(window, clock)
    return {
        "users": [people.words(person) for person in people.users(context)],
        "open": allowed,
        "clock": people.clock_words(clock),
        "until": people.clock_words(people.clock(moment + wait)),
    }


def disturbs(context: Context, before: str) -> bool:
    """Whether people who are logged in would notice; a first installation disturbs nobody."""
    return before == REBOOT or context.exists(LOADED)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:  # noqa: ARG001
    """The result of the module `gpu_users`; RefusalError where people may not be interrupted."""
    seen, reason = ask(host(), **params)
    if reason is not None:
        raise RefusalError(reason, **seen)
    return dict(seen, changed=False)


def ask(
    context: Context, before: str, window: Any, logged_in_users: str, wait: int, waited: bool
) -> tuple[dict[str, Any], str | None]:
    """(the answer of `look` with `disturbed`, why not now or None).

    `before`: the step, as in "Not going to ...". `logged_in_users`: refuse, wait or ignore.
    `waited`: this is the check after a wait. Whoever is still logged in then is a reason in every
    mode, and the window may have closed.
    """
    try:
        seen = look(context, window, wait)
    except ValueError as error:
        return {}, "gpu_maintenance_window: {0}".format(error)
    present = bool(seen["users"])
    seen["disturbed"] = present and logged_in_users != IGNORE and disturbs(context, before)
    if waited:
        return seen, _after_the_wait(seen, before, window, wait)
    if not seen["open"]:
        return seen, (
            "Not going to {0} outside the maintenance window ({1}); it is {2} on this host. "
            "Run again in the window."
        ).format(before, people.window_words(window), seen["clock"])
    if seen["disturbed"] and logged_in_users != WAIT:
        return seen, _occupied(before, seen["users"])
    return seen, None


def _after_the_wait(seen: dict[str, Any], before: str, window: Any, wait: int) -> str | None:
    if seen["users"]:
        return _occupied(before, seen["users"], " (waited {0} s)".format(wait))
    if not seen["open"]:
        return (
            "Not going to {0}: the maintenance window ({1}) has closed while people were waited "
            "for. Run again in the window."
        ).format(before, people.window_words(window))
    return None


def _occupied(before: str, users: list[str], waited: str = "") -> str:
    return (
        "Not going to {0} while people are logged in{1}: {2}. Run again when they have left, or "
        "set nvidia_driver_logged_in_users to wait or ignore."
    ).format(before, waited, "; ".join(users))
