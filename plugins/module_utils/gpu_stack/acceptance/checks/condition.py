"""What a card is doing now, and how it is set."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, measured, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# {reason of a throttled clock: (action, how)}; the others are ordinary: an idle card, a power cap.
THROTTLED = {
    "hardware slowdown": ("service", "look at the power supply, its cables and the cooling"),
    "thermal slowdown": ("service", "look at fans, dust, and the air that the card is given"),
    "thermal slowdown by the driver": (
        "service", "look at fans, dust, and the air that the card is given"
    ),
    "power brake": ("service", "look at the power supply and its cables"),
}  # fmt: skip


def throttle(gpu: dict[str, Any]) -> dict[str, Any]:
    """Neither heat nor a lack of power slows the card down."""
    reasons = gpu["throttle"]
    if reasons is None:
        return not_applicable("the driver does not say")
    bad = [reason for reason in reasons if reason in THROTTLED]
    if not bad:
        return ok("not slowed down" + _because(reasons))
    action, how = THROTTLED[bad[0]]
    evidence = ["{0} degrees Celsius".format(gpu["temperature"])] if gpu["temperature"] else []
    reason = "slowed down: " + ", ".join(bad)
    return finding(DEGRADED, reason, evidence, action=action, how=how)


def _because(reasons: list[str]) -> str:
    ordinary = [reason for reason in reasons if reason != "idle"]
    return " (but for: {0})".format(", ".join(ordinary)) if ordinary else ""


def temperature(gpu: dict[str, Any]) -> dict[str, Any]:
    """Cooler than where the card begins to slow down."""
    now, limit = gpu["temperature"], gpu["temperature_slowdown"]
    if now is None:
        return not_applicable("the driver does not say")
    words = "{0} degrees Celsius".format(now)
    if limit is None:
        return measured(words)
    if now >= limit:
        reason = "{0}; the card slows down from {1} on".format(words, limit)
        action, how = THROTTLED["thermal slowdown"]
        return finding(DEGRADED, reason, action=action, how=how, threshold=limit, source="card")
    return ok(words, threshold=limit, source="card")


def power(gpu: dict[str, Any]) -> dict[str, Any]:
    """The power that the card may take; a lower limit than its own is somebody's choice."""
    limit, own = gpu["power_limit"], gpu["power_limit_default"]
    if limit is None:
        return not_applicable("the driver does not say")
    words = "may take {0:.0f} W".format(limit / 1000)
    if own and limit < own:
        words += ", by default {0:.0f} W".format(own / 1000)
    return measured(words)


def compute_mode(gpu: dict[str, Any]) -> dict[str, Any]:
    """Programs may compute on the card."""
    mode = gpu["compute_mode"]
    if mode is None:
        return not_applicable("the driver does not say")
    if mode == "prohibited":
        how = "sudo nvidia-smi -i {uuid} -c DEFAULT"
        return finding(
            FAILED, "no program may compute on the card (compute mode)", action="configure", how=how
        )
    return ok("compute mode: {0}".format(mode))


def mig(gpu: dict[str, Any]) -> dict[str, Any]:
    """Where MIG is on the card has instances; a change of it does not wait for a reset."""
    state = gpu["mig"]
    if state is None:
        return not_applicable("the card has no MIG")
    if state["mode"] != state["pending"]:
        words = "MIG is to be {0} at the next reset".format("on" if state["pending"] else "off")
        return finding(DEGRADED, words, action="reset")
    if not state["mode"]:
        return ok("MIG is off")
    if not state["instances"]:
        how = "make instances (nvidia-smi mig -cgi ... -C), or switch MIG off (nvidia-smi -mig 0)"
        return finding(
            FAILED, "MIG is on, and without an instance no program can use the card",
            action="configure", how=how,
        )  # fmt: skip
    number = len(state["instances"])
    return ok("MIG is on, with {0} instance{1}".format(number, "" if number == 1 else "s"))


def users(gpu: dict[str, Any]) -> dict[str, Any]:
    """Who works on the card: it is not loaded then."""
    if gpu["processes"] is None:
        return not_applicable("the driver does not say")
    work = [entry for entry in gpu["processes"] if entry["kind"] == "compute"]
    if not work:
        return ok("nobody computes on it")
    evidence = [
        "process {0} of {1}".format(entry["pid"], entry.get("user") or "an unknown user")
        for entry in work
    ]
    return measured("in use: tests that load a card leave it out", evidence=evidence)


GPU = (
    ("throttle", throttle),
    ("temperature", temperature),
    ("power", power),
    ("compute_mode", compute_mode),
    ("mig", mig),
    ("users", users),
)
