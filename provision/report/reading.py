"""What every reader of a report needs: safe text, and the one list of what is wrong with a host.

Host names and messages come from machines that may be broken or hostile: colour codes of pip,
bytes that XML forbids, marks that turn the reading direction around. Made visible here, once, they
can neither break a page nor make one host look like another.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from provision.report import cures, failed_checks

# Worst first: the order of everything that is listed.
WORST_FIRST = ("failed", "blocked", "unreachable", "drift", "converged", "proven")

COLOUR_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Controls (C0 but tab and newline, DEL, C1), lone surrogates, XML's two non-characters, and the
# invisible marks that embed, override or isolate a direction.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a host: where, what, and what to do."""

    title: str
    message: str
    cure: str = ""
    task: bool = False  # a task failed: its name says what was tried, and no title repeats it


def clean(value: Any) -> str:
    """A value as text that any page can hold; what can't be seen is written as `\\u202e`."""
    text = "" if value is None else str(value)
    text = COLOUR_CODE.sub("", text).replace("\r\n", "\n")
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def number(value: Any) -> float:
    """A finite number that is not negative; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) and found > 0 else 0.0


def duration(seconds: float) -> str:
    """ "0.4 s", "12 s", "2 min 13 s", "1 h 04 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(value: Any) -> str:
    """ "2026-11-21 14:05:09 UTC"; anything but a time in UTC stays as it is."""
    text = clean(value)
    match = MOMENT.fullmatch(text)
    return f"{match.group(1)} {match.group(2)} UTC" if match else text


def matches(found: Any, wanted: Any) -> bool:
    """Is this version the one that was promised?

    cuDNN tells three numbers of its four, the lock names Python by two of its three.
    """
    if wanted is None:
        return True
    if found is None:
        return False
    if found == wanted:
        return True
    one, other = str(found).split("."), str(wanted).split(".")
    if len(one) > len(other):
        return len(other) >= 2 and one[: len(other)] == other
    return len(one) >= 3 and other[: len(one)] == one


def problems(host: dict[str, Any]) -> list[Problem]:
    """Everything that makes a host a bad one, each said once; the root cause, not its echo."""
    found = [
        Problem(
            clean(f"preflight: {row['component']}" if row.get("component") else "preflight"),
            clean(row.get("message")),
            clean(row.get("hint")),
        )
        for row in host.get("blockers") or []
    ]
    bad = failed_checks(host)
    found += [
        Problem(
            clean(row.get("title") or row.get("id")),
            clean(row.get("diagnosis") or row.get("detail")),
            clean(row.get("hint")),
        )
        for row in bad
    ]
    failure = host.get("failure") or {}
    said = clean(failure.get("message")).removeprefix("Task failed: ")
    if host["status"] == "unreachable":
        found.append(Problem("Ansible could not reach it", said, clean(cures.unreachable(said))))
    elif failure and not bad and not (host["status"] == "blocked" and found):
        found.append(Problem(clean(failure.get("task")) or "the run", said, task=True))
    elif host["status"] in ("failed", "blocked") and not found:
        found.append(Problem("the run", "it ended badly, and the report does not say why"))
    return found


def differences(host: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not as locked: what the last look found. A run that changed something looks twice."""
    left: list[dict[str, Any]] = host.get("left") or []
    return left or host.get("changes") or []


def counts(host: dict[str, Any]) -> dict[str, int]:
    """How many checks passed, failed and did not apply; empty when none has run."""
    checks = host.get("checks") or []
    return {
        result: sum(1 for row in checks if row.get("result") == result)
        for result in ("passed", "failed", "not_applicable")
        if checks
    }


def plural(count: int, word: str) -> str:
    """ "1 host", "2 hosts"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def disguise(host: dict[str, Any]) -> str:
    """What a host is that only says that it is another distribution; "" for all others."""
    platform = host.get("platform") or {}
    if not platform.get("userland"):
        return ""
    said, real = clean(platform.get("pretty")), clean(platform["userland"])
    return f"{said} by name only: the userland is {real}"
