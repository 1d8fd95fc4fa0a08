"""Verdicts of hosts whose cards were measured, as the hosts send them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from gpu_stack.acceptance import findings, judge
from gpu_stack.acceptance.teaching.history import Earlier

from tests.unit.acceptance.machines import machine

Verdict = dict[str, Any]
NOW = 1_764_000_000.0
DAY = 86400.0
RATE = "fp32_tflops"
# A model without published figures: nothing but like cards and history can judge it.
UNPUBLISHED = "NVIDIA Made Up 1"


def figure(
    value: float, name: str = RATE, unit: str = "TFLOP/s", better: str = "higher"
) -> Verdict:
    return {"name": name, "value": value, "unit": unit, "better": better}


def uuid(host: str, index: int) -> str:
    return f"GPU-{host}-{index}"


def measured(value: float, check: str = "rate", **more: Any) -> Verdict:
    finding = findings.measured(f"{value} TFLOP/s", figure=figure(value, **more))
    return {**finding, "check": check}


def host(
    name: str,
    rates: Sequence[float],
    model: str = UNPUBLISHED,
    *,
    level: str = "normal",
    **more: Any,
) -> Verdict:
    """The verdict of a host with a card for each of these rates."""
    facts = machine("Tesla T4", len(rates))
    for gpu in facts["nvml"]["gpus"]:
        gpu.update(name=model, uuid=uuid(name, gpu["index"]))
    verdict: Verdict = judge.judge(facts)
    for gpu, rate in zip(verdict["gpus"], rates, strict=True):
        gpu["checks"].append(measured(rate))
    return {**copy.deepcopy(verdict), "level": level, "tensorflow": "2.9.3", **more}


def like(model: str = UNPUBLISHED, level: str = "normal") -> str:
    """What the cards of `host` have in common, in the history's words."""
    part = "900-2G183-0000-001; 15360 MiB; 70 W"
    return f"{model.removeprefix('NVIDIA ')}; {part}; driver 550; TensorFlow 2.9; level {level}"


def past(
    name: str, index: int, values: Sequence[float], *, good: bool = True, **more: Any
) -> list[Earlier]:
    """A card's earlier values, one a day, the last of them yesterday."""
    first = NOW - DAY * len(values)
    entries = [
        Earlier(int(first + DAY * day), f"day {day}", uuid(name, index), like(), RATE, value, good)
        for day, value in enumerate(values)
    ]
    return [entry._replace(**more) for entry in entries]


def rate_of(verdict: Verdict, index: int) -> Verdict:
    """The finding about a card's rate."""
    (check,) = [entry for entry in verdict["gpus"][index]["checks"] if entry["check"] == "rate"]
    return check
