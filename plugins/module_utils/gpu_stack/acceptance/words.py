"""A verdict in words, for a terminal and for Ansible's own output."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING
from .findings import BLAMED, MEASURED, NOT_APPLICABLE, OK

if TYPE_CHECKING:
    from typing import Any

# Of a card whose driver does not tell who computes there.
UNSAID = "the driver does not say who uses it"
# Of a card that NVML counts, and that gives it no answer.
SILENT = "the card does not answer"
# The reason of a check whose program was not begun any more.
LATE = "not asked: no time was left for it (gpu_accept_patience)"
SUM = ((OK, "ok"), (MEASURED, "measured"), (NOT_APPLICABLE, "not applicable"))


def host(name: str, entry: dict[str, Any]) -> list[str]:
    """The lines about a host of report/acceptance.json: its verdict, and one line a fault."""
    verdict = entry["acceptance"]
    if verdict is None or entry["message"]:
        message = entry["message"].splitlines() or [""]
        return ["{0}: {1}".format(name, entry["status"]), *("  " + line for line in message)]
    label = " (its GPU is simulated)" if verdict["simulated"] else ""
    if verdict["stand_in"]:
        label = " (its GPU is simulated; logical CPU devices computed in its place)"
    text = ["{0}: {1}{2}: {3}".format(name, verdict["verdict"], label, summary(verdict))]
    for fault in blamed(verdict):
        text += ["  " + _line(fault), *("    because: " + line for line in fault["evidence"])]
    return text + ["  " + line for line in [*left_alone(verdict), *late(verdict)]]


def faults(verdict: dict[str, Any]) -> list[str]:
    """One line for each fault of a host."""
    return [_line(fault) for fault in blamed(verdict)]


def left_alone(verdict: dict[str, Any]) -> list[str]:
    """One line for each GPU that was not loaded, as the level asks for it, with the reason."""
    return [
        "{0}: left alone: {1}".format(title(gpu), gpu["left_alone"])
        for gpu in verdict["gpus"]
        if gpu.get("left_alone")
    ]


def late(verdict: dict[str, Any]) -> list[str]:
    """A line with the checks that were not asked for want of time, where there are any."""
    checks = [*verdict["checks"], *(entry for gpu in verdict["gpus"] for entry in gpu["checks"])]
    names = sorted({entry["check"] for entry in checks if entry["reason"] == LATE})
    return ["not asked for want of time: {0}".format(", ".join(names))] if names else []


def blamed(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that are degraded or failed, the host's first, each with its `subject`.

    That is a GPU's title, or "" for the host; its name stands in `how`.
    """
    parts = [("", "HOST", verdict["checks"])]
    for gpu in verdict["gpus"]:
        identity = gpu["uuid"] or gpu["pci"] or str(gpu["index"])
        parts.append((title(gpu), identity, gpu["checks"]))
    return [
        dict(entry, subject=subject, how=entry["how"].replace("{uuid}", identity))
        for subject, identity, checks in parts
        for entry in checks
        if entry["state"] in BLAMED
    ]


def summary(verdict: dict[str, Any]) -> str:
    """ "2 GPUs; 31 checks ok, 4 measured, 9 not applicable"."""
    checks = [*verdict["checks"], *(entry for gpu in verdict["gpus"] for entry in gpu["checks"])]
    number = len(verdict["gpus"])
    counts = [(sum(entry["state"] == state for entry in checks), word) for state, word in SUM]
    words = ", ".join("{0} {1}".format(count, word) for count, word in counts if count)
    return "{0} GPU{1}; checks: {2}".format(number, "" if number == 1 else "s", words or "none")


def title(gpu: dict[str, Any]) -> str:
    """ "GPU 2 GPU-8f2a... (Tesla T4, serial 0421, slot 4, 0000:3d:00.0)"."""
    serial = gpu["serial"] and "serial {0}".format(gpu["serial"])
    slot = gpu["slot"] and "slot {0}".format(gpu["slot"])
    details = [word for word in (gpu["name"], serial, slot, gpu["pci"]) if word]
    uuid = " " + gpu["uuid"] if gpu["uuid"] else ""
    return "GPU {0}{1} ({2})".format(gpu["index"], uuid, ", ".join(details))


def in_use(users: list[str | None]) -> str | None:
    """ "in use: ada, bob" of those whose processes compute on a card; None where there are none."""
    names = sorted({user or "an unknown user" for user in users})
    return "in use: {0}".format(", ".join(names)) if names else None


def in_use_elsewhere(index: int, why: str) -> str:
    """Why a card is left alone on which nobody computes, where nothing is to be loaded then."""
    return "GPU {0}: {1}".format(index, why)


def _line(fault: dict[str, Any]) -> str:
    subject = fault["subject"] and fault["subject"] + ": "
    how = " ({0})".format(fault["how"]) if fault["how"] else ""
    return "{0}{1}: {2}; next: {3}{4}".format(
        subject, fault["state"], fault["reason"], fault["action"], how
    )
