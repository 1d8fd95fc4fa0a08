"""The measured figures of a card on the page: which teacher judged each, and how it was before.

The line of former values is a picture of a few numbers, drawn as SVG: no script, and its colours
are the page's, in light and dark. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provision.report.reading import clean

# {UUID: {figure: [former values, the oldest first]}}; of each value, what history.Earlier has.
Past = Mapping[str, Mapping[str, Sequence[Any]]]
TEACHERS = {
    "catalog": "the published figure of its model",
    "fleet": "like cards",
    "history": "its own history",
    "NVIDIA": "NVIDIA's rule",
    "card": "the card itself",
    "host": "this host's other cards",
    "inventory": "the inventory",
}


@dataclass(frozen=True)
class Frame:
    """A picture's size, and where in it the values are drawn, in the picture's own units."""

    width: int
    height: int
    left: int
    top: int
    right: int
    bottom: int


LINE = Frame(160, 36, left=5, top=5, right=155, bottom=31)


@dataclass(frozen=True)
class Dot:
    """One value of the line."""

    x: float
    y: float
    good: bool
    text: str


@dataclass(frozen=True)
class Figure:
    """One figure: its value, what judged it, and its line where there are former values."""

    name: str
    value: str
    state: str
    by: str
    dots: list[Dot] = field(default_factory=list)
    # Where the limit is drawn; None without one.
    limit: float | None = None
    description: str = ""

    @property
    def points(self) -> str:
        return " ".join(f"{dot.x},{dot.y}" for dot in self.dots)


def figures(checks: Sequence[Mapping[str, Any]], past: Mapping[str, Sequence[Any]]) -> list[Figure]:
    """The figures of these findings; `past`: by figure, the card's former values."""
    return [_figure(check, past) for check in checks if check.get("figure")]


def _figure(check: Mapping[str, Any], past: Mapping[str, Sequence[Any]]) -> Figure:
    figure = check["figure"]
    name, unit = clean(figure["name"]), clean(figure["unit"])
    value = f"{three_digits(figure['value'])} {unit}".strip()
    threshold = check.get("threshold")
    by = _by(check, figure, unit)
    entries = list(past.get(figure["name"]) or ())
    # Only values of the same conditions make one line.
    entries = [entry for entry in entries if entry.like == entries[-1].like]
    if len(entries) < 2:
        return Figure(name, value, check["state"], by)
    # A counter's limit is of its growth, and has no place among its values.
    limit = threshold["value"] if threshold and threshold["source"] != "NVIDIA" else None
    values = [float(entry.value) for entry in entries]
    low, high = _range(values if limit is None else [*values, limit])
    dots = [
        Dot(
            round(LINE.left + place * (LINE.right - LINE.left) / (len(values) - 1), 1),
            _height(number, low, high),
            bool(entry.good),
            f"{clean(entry.day)}: {three_digits(number)} {unit}".strip(),
        )
        for place, (entry, number) in enumerate(zip(entries, values, strict=True))
    ]
    drawn = None if limit is None else _height(limit, low, high)
    description = f"{name}, {len(dots)} acceptances: {dots[0].text} to {dots[-1].text}"
    return Figure(name, value, check["state"], by, dots, drawn, description)


def _by(check: Mapping[str, Any], figure: Mapping[str, Any], unit: str) -> str:
    """What judged it: "at least 12 TFLOP/s, by like cards"."""
    if check.get("stand_in"):
        return "not judged: a processor stood in for the card"
    threshold = check.get("threshold")
    if not threshold:
        return "nothing to compare with yet"
    teacher = TEACHERS.get(threshold["source"], threshold["source"])
    if threshold["source"] == "NVIDIA":
        return f"at most {three_digits(threshold['value'])} a minute more, by {teacher}"
    relation = "at most" if figure["better"] == "lower" else "at least"
    return f"{relation} {three_digits(threshold['value'])} {unit}, by {teacher}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """(lowest, highest), with a tenth of the value at least between: noise is no cliff."""
    low, high = min(values), max(values)
    least = 0.1 * max(abs(low), abs(high)) or 1.0
    if high - low < least:
        middle = (low + high) / 2
        return middle - least / 2, middle + least / 2
    return low, high


def _height(value: float, low: float, high: float) -> float:
    return round(LINE.bottom - (value - low) / (high - low) * (LINE.bottom - LINE.top), 1)


def three_digits(value: float) -> str:
    """Three digits that count, as in the findings' own words."""
    return f"{float(f'{value:.3g}'):.10g}"
