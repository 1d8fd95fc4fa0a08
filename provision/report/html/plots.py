"""Two plots of a host's training: images a second by the number of GPUs, and how busy each was.

Drawn as SVG from what the verdict has, with the numbers beside in text: nothing is shown by colour
alone. What logical CPU devices did in the place of GPUs is not drawn, as it would look measured.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provision.report.html.figures import Frame, three_digits
from provision.report.reading import clean, plural

# The ways to train of a verdict, in its words: {way: the class of its line}.
WAYS = {"float32": "plain", "mixed precision": "mixed", "XLA": "xla"}
STAND_IN = (
    "Not drawn: logical CPU devices stood in for the GPUs, and what they did says nothing of a GPU."
)
# The picture of rates, whose labels want more room at the left by their digits, each about DIGIT
# wide; and that of one card's utilisation.
RATES = Frame(360, 230, left=26, top=10, right=350, bottom=190)
DIGIT = 7.0
CARD = Frame(160, 66, left=42, top=8, right=156, bottom=50)
# Two numbers below an axis need so much room.
APART = 22.0
# Above so many seconds an axis is in minutes.
MINUTES = 180
# {kind of a verdict's samples: (what the card did, the check that says why there are none)}
KINDS = {
    "together": ("While all GPUs trained together", "busy"),
    "burn_in": ("During the burn-in", "burn_in"),
}


@dataclass(frozen=True)
class Tick:
    """A number on an axis, and where it is."""

    at: float
    text: str


@dataclass(frozen=True)
class Mark:
    """One measured value."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Course:
    """A way to train: its values, and the end of its line of ideal scaling where it has one."""

    name: str
    kind: str
    marks: list[Mark]
    ideal: Mark | None

    @property
    def points(self) -> str:
        return _points(self.marks)


@dataclass(frozen=True)
class Rates:
    """Images a second: a table, and its picture where there are several numbers of GPUs.

    rows: (GPUs, for each course (value, of the ideal one)). `why`: why there is nothing.
    """

    workload: str = ""
    why: str = ""
    courses: list[Course] = field(default_factory=list)
    rows: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    across: list[Tick] = field(default_factory=list)
    up: list[Tick] = field(default_factory=list)
    left: float = 0.0
    drawn: bool = False
    description: str = ""


@dataclass(frozen=True)
class Busy:
    """One card's utilisation: its line, and the same in words."""

    gpu: str
    line: list[Mark]
    end: str
    summary: str

    @property
    def points(self) -> str:
        return _points(self.line)


@dataclass(frozen=True)
class Load:
    """One kind of work: its cards, and why there is nothing of the others."""

    title: str
    cards: list[Busy]
    missing: list[str]


def rates(verdict: Mapping[str, Any]) -> Rates | None:
    """The rates in a host's verdict; None where none were asked for."""
    if "scaling" not in verdict:
        return None
    if _stands_in(verdict):
        return Rates(why=STAND_IN)
    scaling = verdict["scaling"] or {}
    by_way = _rates(scaling)
    if not any(by_way.values()):
        return Rates(why=_reason(verdict["checks"], "scaling") or "Nothing was measured.")
    counts = sorted({count for values in by_way.values() for count in values})
    ideal = {way: rate for way, values in by_way.items() if (rate := values.get(1))}
    highest = max(
        *(value for values in by_way.values() for value in values.values() if value),
        *(rate * max(by_way[way]) for way, rate in ideal.items()),
        0.0,
    )
    steps = _steps(highest)
    left = round(RATES.left + DIGIT * max(len(_plain(step)) for step in steps), 1)

    def place(count: float, value: float) -> Mark:
        return Mark(
            round(left + count / counts[-1] * (RATES.right - left), 1),
            round(RATES.bottom - value / steps[-1] * (RATES.bottom - RATES.top), 1),
            f"{plural(int(count), 'GPU')}: {three_digits(value)} images a second",
        )

    courses = [
        Course(
            way,
            WAYS[way],
            [place(count, value) for count, value in sorted(values.items()) if value],
            place(max(values), ideal[way] * max(values))
            if way in ideal and len(values) > 1
            else None,
        )
        for way, values in by_way.items()
    ]
    across = _apart([Tick(place(count, 0).x, str(count)) for count in counts])
    description = "; ".join(
        f"{course.name}: {', '.join(mark.text for mark in course.marks)}" for course in courses
    )
    return Rates(
        f"{clean(scaling['model'])}, {clean(scaling['batch'])} images at a time on each GPU",
        "" if len(counts) > 1 else _reason(verdict["checks"], "scaling"),
        courses,
        [(str(count), _row(count, by_way, ideal)) for count in counts],
        across,
        [Tick(place(0, step).y, _plain(step)) for step in steps],
        left,
        len(counts) > 1,
        description,
    )


def loads(verdict: Mapping[str, Any]) -> list[Load] | None:
    """How busy the cards of a host were; None where that was not asked for."""
    gpus = [gpu for gpu in verdict.get("gpus") or [] if "utilization" in gpu]
    if not gpus:
        return None
    if _stands_in(verdict):
        return [Load("", [], [STAND_IN])]
    shown = []
    for kind, (title, check) in KINDS.items():
        cards: list[Busy] = []
        why: dict[str, list[str]] = {}
        for gpu in gpus:
            samples = _samples(gpu["utilization"].get(kind))
            if samples:
                cards.append(_busy(str(gpu["index"]), samples))
                continue
            for reason in _why(gpu["checks"], check):
                why.setdefault(reason, []).append(str(gpu["index"]))
        missing = [
            f"No samples of GPU {', '.join(indexes)}: {reason}" for reason, indexes in why.items()
        ]
        if cards or missing:
            shown.append(Load(title, cards, missing))
    return shown


def _points(marks: Sequence[Mark]) -> str:
    """The points of an SVG line."""
    return " ".join(f"{mark.x},{mark.y}" for mark in marks)


def _stands_in(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict.get("stand_in") or verdict.get("simulated"))


def _rates(scaling: Mapping[str, Any]) -> dict[str, dict[int, float | None]]:
    """{way: {GPUs: images a second}}; None is what there was no time for."""
    by_way: dict[str, dict[int, float | None]] = {}
    for way in WAYS:
        values = {
            entry["gpus"]: _number(entry["images_per_second"])
            for entry in scaling.get("rates") or ()
            if entry["way"] == way and entry["gpus"] >= 1
        }
        if any(values.values()):
            by_way[way] = dict(sorted(values.items()))
    return by_way


def _row(
    count: int, by_way: Mapping[str, Mapping[int, float | None]], ideal: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Of each way: (images a second, how much of its ideal)."""
    cells = []
    for way, values in by_way.items():
        value = values.get(count)
        if value is None:
            cells.append(("no time was left" if count in values else "", ""))
            continue
        share = f"{100 * value / ideal[way] / count:.0f} %" if way in ideal and count > 1 else ""
        cells.append((three_digits(value), share))
    return cells


def _steps(highest: float) -> list[float]:
    """Round numbers from 0 to the first that is not lower, three to five of them."""
    rough = highest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * by for by in (1, 2, 5, 10) if power * by >= rough)
    return [step * turn for turn in range(math.ceil(round(highest / step, 6)) + 1)]


def _apart(ticks: Sequence[Tick]) -> list[Tick]:
    """The ticks whose numbers have room: the last, those that fit left of it, and the first."""
    kept = [ticks[-1]]
    for tick in reversed(ticks[1:-1]):
        if kept[-1].at - tick.at >= APART and tick.at - ticks[0].at >= APART:
            kept.append(tick)
    if kept[-1].at - ticks[0].at >= APART:
        kept.append(ticks[0])
    return kept[::-1]


def _busy(gpu: str, samples: Sequence[tuple[float, float]]) -> Busy:
    last = samples[-1][0]
    end = f"{three_digits(last)} s" if last <= MINUTES else f"{last / 60:.0f} min"
    percents = [percent for _moment, percent in samples]
    mean = sum(percents) / len(percents)
    line = [
        Mark(
            round(CARD.left + (moment / last if last else 0.0) * (CARD.right - CARD.left), 1),
            round(CARD.bottom - percent / 100 * (CARD.bottom - CARD.top), 1),
            "",
        )
        for moment, percent in samples
    ]
    summary = f"{mean:.0f} % on average, {min(percents):.0f} to {max(percents):.0f} %"
    return Busy(gpu, line, end, summary)


def _samples(points: Any) -> list[tuple[float, float]]:
    """(seconds, per cent) in the order of time, without what is no number."""
    samples = []
    for point in points or ():
        moment, percent = (_number(part) for part in point)
        if moment is not None and percent is not None:
            samples.append((moment, min(percent, 100.0)))
    return sorted(samples)


def _number(value: Any) -> float | None:
    """A number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _plain(value: float) -> str:
    return f"{value:.10g}"


def _reason(checks: Sequence[Mapping[str, Any]], name: str) -> str:
    return next((clean(entry["reason"]) for entry in checks if entry["check"] == name), "")


def _why(checks: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Why a card has no samples; nothing of a check that was not asked for."""
    return [
        clean(entry["reason"]) if entry["state"] == "not applicable" else "NVML gave none"
        for entry in checks
        if entry["check"] == name
    ]
