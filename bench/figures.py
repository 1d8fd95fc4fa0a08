"""Medians, ratios and verdicts: the arithmetic of the benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """A figure with its upper limit."""

    part: str
    text: str
    limit: float
    value: float | None
    """None where it was not measured."""
    reason: str = ""
    """Why it is not met, by the run's figures; "" where these do not say."""

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.value <= self.limit

    @property
    def verdict(self) -> str:
        """`met, 12 % below` or `not met, 8 % above`."""
        if self.value is None:
            return "not measured"
        distance = abs(self.value / self.limit - 1) * 100
        return f"met, {distance:.0f} % below" if self.met else f"not met, {distance:.0f} % above"

    def plain(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "text": self.text,
            "limit": self.limit,
            "value": self.value,
            "met": self.met,
            "verdict": self.verdict,
            **({"reason": self.reason} if self.met is False and self.reason else {}),
        }


def median(values: Sequence[float]) -> float:
    """The median; ValueError without values."""
    if not values:
        raise ValueError("no values to take a median of")
    return statistics.median(values)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of each round's ratio, in which the machine's drift cancels out.

    None without a round in which both were measured.
    """
    pairs = [
        our_value / their_value
        for our_value, their_value in zip(ours, theirs, strict=False)
        if their_value > 0
    ]
    return median(pairs) if pairs else None


def spread(values: Sequence[float]) -> str:
    """`3.1 (2.9-3.4, n=3)`: median, minimum, maximum, count."""
    if not values:
        return "not measured"
    digits = 1 if median(values) >= 10 else 2
    if len(values) == 1:
        return f"{values[0]:.{digits}f} (n=1)"
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f}, n={len(values)})"


def per_host(few: float, many: float, hosts: int) -> float:
    """The cost of each further host, from that of one host (`few`) and of `hosts` (`many`)."""
    if hosts < 2:
        raise ValueError("it takes two hosts to tell what one more costs")
    return (many - few) / (hosts - 1)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
