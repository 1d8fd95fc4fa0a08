"""What the kernel's log says that the driver has met since the host booted."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .. import xids
from ..findings import ACTIONS, DEGRADED, FAILED, finding, measured, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# {severity in the catalog: the state of a card that had such an Xid}
STATES = {"failed": FAILED, "degraded": DEGRADED}
# Lines that are shown of a log that repeats itself.
SHOWN = 5
# A person's own faulty program, started again and again, looks the same.
REPEATED = (
    "run what failed on another card: where it fails too, it is the program; else run `provision"
    " accept --level normal`, and if that is well NVIDIA's own tests (dcgmi diag -r 3)"
)

ALONE = "; no other card of this host shows whether it is the program or the card"


def xid(gpu: dict[str, Any]) -> dict[str, Any]:
    """No error of the card's own in the kernel's log of this boot.

    Errors that programs cause are counted. They are held against the card where several programs
    have them again and again on one part of it (xids.repeated), and on no other card so. Where the
    host has no other card, one person's faulty program looks the same, and nobody is accused.
    """
    events = gpu["xids"]
    if events is None:
        return not_applicable("the kernel's log can't be read here")
    if not events:
        return ok("no Xid since the host booted")
    evidence = [_line(event) for event in events[-SHOWN:]]
    events = xids.standing(events)
    verdicts = [(event, xids.verdict(event["number"], event["own"])) for event in events]
    judged = [pair for pair in verdicts if pair[1].severity in STATES]
    if not judged:
        return _of_programs(gpu, evidence)
    event, verdict = max(judged, key=lambda pair: _weight(pair[1]))
    times = sum(entry["number"] == event["number"] for entry in events)
    reason = "Xid {0}: {1}{2}".format(
        event["number"], verdict.name, "" if times == 1 else " ({0} times)".format(times)
    )
    state = STATES[verdict.severity]
    return finding(state, reason, evidence, action=verdict.action)


def _of_programs(gpu: dict[str, Any], evidence: list[str]) -> dict[str, Any]:
    """The finding on a card that has had no errors but those that programs cause."""
    numbers = sorted({event["number"] for event in gpu["xids"]})
    for number in numbers:
        came = xids.repeated(number, gpu["xids"])
        # What several cards have is the program's, or the driver's.
        if came is None or any(xids.repeated(number, events) for events in gpu["elsewhere"]):
            continue
        reason = "Xid {0}: {1}, {2} times in a day by {3} processes on {4}".format(
            number,
            came.name,
            came.times,
            came.processes,
            came.part or "this card",
        )
        evidence = [_line(event) for event in gpu["xids"] if event["number"] == number][-SHOWN:]
        if gpu["alone"]:
            return measured(reason + ALONE, evidence=evidence, how=REPEATED)
        return finding(
            STATES[came.severity], reason, evidence, action=came.action, how=REPEATED,
            threshold=came.least, source="catalog",
        )  # fmt: skip
    words = ", ".join(str(number) for number in numbers)
    return ok("only errors of programs: Xid {0}".format(words), evidence=evidence)


def _weight(verdict: xids.Verdict) -> tuple[bool, int]:
    """The worse the heavier."""
    return verdict.severity == "failed", ACTIONS.index(verdict.action)


def _line(event: dict[str, Any]) -> str:
    name = xids.verdict(event["number"], event["own"]).name
    return "Xid {0} ({1}): {2}".format(event["number"], name, event["message"])


GPU = (("xid", xid),)
