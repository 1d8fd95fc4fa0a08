"""Medians, ratios and verdicts: the arithmetic of the benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
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


def _walls(part: Mapping[str, Any], count: int, way: str) -> list[float]:
    runs = part.get("runs", {}).get(str(count), {}).get(way, [])
    return [run["wall"] for run in runs]


def _cpus(part: Mapping[str, Any], count: int, way: str) -> list[float]:
    runs = part.get("runs", {}).get(str(count), {}).get(way, [])
    return [run["cpu"] for run in runs]


def _sums(part: Mapping[str, Any], count: int, *words: str) -> list[float]:
    return [sum(run[word] for word in words) for run in part.get("runs", {}).get(str(count), [])]


def bounds(results: Mapping[str, Any]) -> list[Bound]:
    """All bounds with their measured values; None for a part that was not measured."""
    judged = []
    cold = results.get("cold") or {}
    ours = [run["proven"] for run in cold.get("ours", [])]
    hand = [run["proven"] for run in cold.get("by_hand", [])]
    judged.append(Bound("a", "cold rebuild: ours / by hand", 1.10, ratio(ours, hand)))
    rerun = results.get("rerun") or {}
    for count in (1, 10, 100):
        value = ratio(_walls(rerun, count, "ours"), _walls(rerun, count, "pyinfra"))
        judged.append(Bound("b", f"re-run, {count} hosts: ours / pyinfra", 0.7, value))
    value = ratio(_walls(rerun, 10, "ours"), _walls(rerun, 10, "ansible"))
    judged.append(Bound("b", "re-run, 10 hosts: ours / plain Ansible", 0.1, value))
    value = ratio(_walls(rerun, 100, "ours"), _walls(rerun, 100, "ssh"))
    judged.append(Bound("b", "re-run, 100 hosts: ours / plain ssh", 1.5, value))
    render = results.get("render") or {}
    for count, limit in ((1000, 1.0), (10000, 5.0)):
        runs = render.get("runs", {}).get(str(count), [])
        used = median([run["cpu"] for run in runs]) if runs else None
        text = f"render, {count:,} hosts: seconds of CPU beyond ansible-inventory's"
        judged.append(Bound("c", text, limit, used))
    solve = results.get("solve") or {}
    large = _sums(solve, 10000, "lock", "wheels", "render")
    text = "lock and render, 10,000 hosts of 12 kinds: seconds of CPU beyond ansible-inventory's"
    judged.append(Bound("e", text, 5.0, median(large) if large else None))
    text = "the same without what each host has of its own: 10,000 hosts / 100 hosts"
    many, few = (_sums(solve, count, "lock", "wheels") for count in (10000, 100))
    judged.append(Bound("e", text, 1.2, ratio(many, few)))
    few, many = _cpus(rerun, 1, "ours"), _cpus(rerun, 100, "ours")
    each = per_host(median(few), median(many), 100) if few and many else None
    judged.append(Bound("d", "controller CPU seconds per converged host", 0.35, each))
    ubuntu = results.get("ubuntu") or {}
    script = [run["proven"] for run in ubuntu.get("tutorial", [])]
    for way, text in (
        ("ours", "Ubuntu, cold rebuild: ours / the tutorials' commands"),
        ("network", "the same, the driver built by DKMS from NVIDIA's repository"),
        ("sources", "the same from the tutorials' own sources"),
    ):
        walls = [run["proven"] for run in ubuntu.get(way, [])]
        judged.append(Bound("f", text, 0.9, ratio(walls, script)))
    runs = (results.get("workspaces") or {}).get("runs", [])
    more = median([run["10"] - run["1"] for run in runs]) if runs else None
    judged.append(Bound("g", "workspaces: seconds that ten take more than one", 20, more))
    touched = max(run["touched"] for run in runs) if runs else None
    judged.append(Bound("g", "containers that a change of one of ten touches", 1, touched))
    return judged
