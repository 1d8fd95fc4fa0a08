"""What a check finds: one judgement, with its reason, evidence and next action."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

OK, DEGRADED, FAILED = "ok", "degraded", "failed"
# What can't be asked here, and what is only reported: neither is ever a pass.
NOT_APPLICABLE, MEASURED = "not applicable", "measured"
# The worst last.
STATES = (NOT_APPLICABLE, MEASURED, OK, DEGRADED, FAILED)
# Those that somebody must do something about.
BLAMED = (DEGRADED, FAILED)
# What to do next, the gentlest first. `configure`: the card is well, and a setting is not.
ACTIONS = ("nothing", "watch", "configure", "reset", "reboot", "reseat", "service")
HOW = {
    "nothing": "",
    "watch": "run `provision accept` again in some days, and compare",
    "configure": "",
    "reset": "when nobody uses the card: sudo nvidia-smi --gpu-reset -i {uuid}; else reboot",
    "reboot": "reboot the host; if the fault comes back, take the card out and put it in again",
    "reseat": "switch the host off, put the card and its riser in again, then try another slot",
    "service": "have the card replaced",
}


def finding(
    state: str,
    reason: str,
    evidence: Sequence[str] = (),
    *,
    action: str = "nothing",
    how: str = "",
    threshold: Any = None,
    source: str = "",
    figure: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A judgement. `how` says the action in words where HOW's do not fit.

    `threshold` is what was compared with, and `source` where that is from, one of those in
    docs/schemas/acceptance-1.json. `figure` is a number that other cards, other days or the catalog
    can be asked about: {name: "fp32_tflops", value: 14.2, unit: "TFLOP/s", better: "higher"}.
    """
    entry: dict[str, Any] = {
        "state": state, "reason": reason, "evidence": list(evidence), "action": action,
        "how": how or HOW[action],
    }  # fmt: skip
    if source:
        entry["threshold"] = {"value": threshold, "source": source}
    if figure is not None:
        entry["figure"] = figure
    return entry


def ok(reason: str, **more: Any) -> dict[str, Any]:
    return finding(OK, reason, **more)


def not_applicable(reason: str) -> dict[str, Any]:
    return finding(NOT_APPLICABLE, reason)


def measured(reason: str, **more: Any) -> dict[str, Any]:
    """A value that nothing is known to compare with."""
    return finding(MEASURED, reason, **more)


def worst(findings: Sequence[dict[str, Any]]) -> str:
    """The state of what these findings are about.

    Measured values alone make nothing well: without any `ok` it is not applicable.
    """
    states = [entry["state"] for entry in findings]
    for state in (FAILED, DEGRADED, OK):
        if state in states:
            return state
    return NOT_APPLICABLE
