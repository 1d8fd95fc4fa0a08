"""What every view of a report needs: safe text, and the problems of a host.

Host names and messages come from machines that may be broken or hostile: pip's colour codes, bytes
that XML forbids, marks that reverse the reading direction. Made visible here, they can neither
break a page nor make one host look like another.
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
    task: bool = False  # `title` is the name of a failed task


def clean(value: Any) -> str:
    """A value as text for any page, with invisible characters written as `\\u202e`."""
    text = "" if value is None else str(value)
    text = COLOUR_CODE.sub("", text).replace("\r\n", "\n")
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def number(value: Any) -> float:
    """A finite number that is not negative; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        result = float(value)
    except OverflowError:
        return 0.0
    return result if math.isfinite(result) and result > 0 else 0.0


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


def matches(version: Any, locked: Any) -> bool:
    """Is this version the locked one?

    cuDNN reports three of its four numbers, and the lock has two of Python's three.
    """
    if locked is None:
        return True
    if version is None:
        return False
    if version == locked:
        return True
    parts, locked_parts = str(version).split("."), str(locked).split(".")
    if len(parts) > len(locked_parts):
        return len(locked_parts) >= 2 and parts[: len(locked_parts)] == locked_parts
    return len(parts) >= 3 and locked_parts[: len(parts)] == parts


def problems(host: dict[str, Any]) -> list[Problem]:
    """What is wrong with a host: blockers and failed checks, else the failed task."""
    result = [
        Problem(
            clean(f"preflight: {row['component']}" if row.get("component") else "preflight"),
            clean(row.get("message")),
            clean(row.get("hint")),
        )
        for row in host.get("blockers") or []
    ]
    failed = failed_checks(host)
    result += [
        Problem(
            clean(row.get("title") or row.get("id")),
            clean(row.get("diagnosis") or row.get("detail")),
            clean(row.get("hint")),
        )
        for row in failed
    ]
    failure = host.get("failure") or {}
    message = clean(failure.get("message")).removeprefix("Task failed: ")
    if host["status"] == "unreachable":
        result.append(
            Problem("Ansible could not reach it", message, clean(cures.unreachable(message)))
        )
    elif failure and not failed and not (host["status"] == "blocked" and result):
        result.append(Problem(clean(failure.get("task")) or "the run", message, task=True))
    elif host["status"] in ("failed", "blocked") and not result:
        result.append(Problem("the run", "it failed, and the report does not say why"))
    return result


def differences(host: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not as locked, by the run's last look: a run with changes looks again at its end."""
    left: list[dict[str, Any]] = host.get("left") or []
    return left or host.get("changes") or []


def counts(host: dict[str, Any]) -> dict[str, int]:
    """{result: how many checks have it}; empty when no check has run."""
    checks = host.get("checks") or []
    return {
        result: sum(1 for row in checks if row.get("result") == result)
        for result in ("passed", "failed", "not_applicable")
        if checks
    }


def plural(count: int, word: str) -> str:
    """ "1 host", "2 hosts"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def userland_note(host: dict[str, Any]) -> str:
    """A note on a host whose userland is not the distribution that it names; "" for others."""
    platform = host.get("platform") or {}
    if not platform.get("userland"):
        return ""
    claimed, real = clean(platform.get("pretty")), clean(platform["userland"])
    return f"{claimed} by name only: the userland is {real}"
