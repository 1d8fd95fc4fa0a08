"""The bounds that the benchmark is judged by, each with its measured value and, if not met, why.

A reason is computed from the same run's figures: an explanation that no figure carries would still
stand there when it is no longer true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import reasons
from bench.figures import Bound, median, per_host, ratio

Part = Mapping[str, Any]


def bounds(results: Mapping[str, Any]) -> list[Bound]:
    """All bounds with their measured values; None for a part that was not measured."""

    def part(name: str) -> Part:
        return results.get(name) or {}

    return [
        *_cold(part("cold")),
        *_rerun(part("rerun")),
        *_render(part("render")),
        *_solve(part("solve")),
        *_cpu(part("rerun")),
        *_ubuntu(part("ubuntu")),
        *_workspaces(part("workspaces")),
        *_together(part("together")),
        *_outside(part("outside")),
        *_thousand(part("thousand")),
        *_bundle(part("bundle")),
    ]


def runs_of(part: Part, count: int, way: str) -> Sequence[Mapping[str, float]]:
    """The runs of a way on so many hosts; none where they were not measured."""
    runs: Sequence[Mapping[str, float]] = part.get("runs", {}).get(str(count), {}).get(way, [])
    return runs


def _walls(part: Part, count: int, way: str) -> list[float]:
    return [run["wall"] for run in runs_of(part, count, way)]


def _cpus(part: Part, count: int, way: str) -> list[float]:
    return [run["cpu"] for run in runs_of(part, count, way)]


def _sums(part: Part, count: int, *words: str) -> list[float]:
    return [sum(run[word] for word in words) for run in part.get("runs", {}).get(str(count), [])]


def _cold(part: Part) -> list[Bound]:
    ours = [run["proven"] for run in part.get("ours", [])]
    hand = [run["proven"] for run in part.get("by_hand", [])]
    text = "cold rebuild: ours / by hand"
    return [Bound("a", text, 0.85, ratio(ours, hand), reasons.cold(part))]


def _rerun(part: Part) -> list[Bound]:
    judged = []
    for count in (1, 10, 100):
        value = ratio(_walls(part, count, "ours"), _walls(part, count, "pyinfra"))
        judged.append(Bound("b", f"re-run, {count} hosts: ours / pyinfra", 0.7, value))
    value = ratio(_walls(part, 10, "ours"), _walls(part, 10, "ansible"))
    judged.append(Bound("b", "re-run, 10 hosts: ours / plain Ansible", 0.1, value))
    value = ratio(_walls(part, 100, "ours"), _walls(part, 100, "ssh"))
    text = "re-run, 100 hosts: ours / plain ssh"
    judged.append(Bound("b", text, 1.4, value, reasons.many(part, 100)))
    return judged


def _render(part: Part) -> list[Bound]:
    judged = []
    for count, limit in ((1000, 1.0), (10000, 5.0)):
        runs = part.get("runs", {}).get(str(count), [])
        used = median([run["cpu"] for run in runs]) if runs else None
        text = f"render, {count:,} hosts: seconds of CPU beyond ansible-inventory's"
        judged.append(Bound("c", text, limit, used))
    return judged


def _solve(part: Part) -> list[Bound]:
    large = _sums(part, 10000, "lock", "wheels", "render")
    text = "lock and render, 10,000 hosts of 12 kinds: seconds of CPU beyond ansible-inventory's"
    first = Bound("e", text, 5.0, median(large) if large else None, reasons.solve(part))
    text = "lock and wheels alone: 10,000 hosts / 100 hosts"
    many, few = (_sums(part, count, "lock", "wheels") for count in (10000, 100))
    return [first, Bound("e", text, 1.2, ratio(many, few))]


def _cpu(part: Part) -> list[Bound]:
    few, many = _cpus(part, 1, "ours"), _cpus(part, 100, "ours")
    seconds = per_host(median(few), median(many), 100) if few and many else None
    text = "controller CPU seconds per additional converged host"
    return [Bound("d", text, 0.06, seconds, reasons.controller(part, 1, 100))]


def _ubuntu(part: Part) -> list[Bound]:
    script = [run["proven"] for run in part.get("tutorial", [])]
    judged = []
    for way, limit, text in (
        ("ours", 0.9, "Ubuntu, cold rebuild: ours / the tutorials' commands"),
        ("network", 0.9, "the same with NVIDIA's repository, the driver built by DKMS"),
        ("sources", 0.95, "the same with the tutorials' own sources"),
    ):
        walls = [run["proven"] for run in part.get(way, [])]
        value = ratio(walls, script)
        judged.append(Bound("f", text, limit, value, reasons.ubuntu(part, way)))
    return judged


def _workspaces(part: Part) -> list[Bound]:
    runs = part.get("runs", [])
    more = median([run["10"] - run["1"] for run in runs]) if runs else None
    touched = max(run["touched"] for run in runs) if runs else None
    return [
        Bound("g", "workspaces: extra seconds for ten over one", 20, more),
        Bound("g", "containers that a change to one of ten touches", 1, touched),
    ]


def _together(part: Part) -> list[Bound]:
    runs = part.get("runs", [])
    value = ratio([run["ours"] for run in runs], [run["least"] for run in runs])
    text = "six bare hosts at once: ours / the least time that six take by hand"
    return [Bound("h", text, 1.5, value, reasons.together(part))]


def _outside(part: Part) -> list[Bound]:
    fetched = {int(count): value for count, value in part.get("bytes", {}).items()}
    judged = []
    for count in (3, 6):
        measured = 1 in fetched and count in fetched
        value = fetched[count] / fetched[1] if measured else None
        text = f"bytes from outside through the fleet's cache: {count} bare hosts / one"
        judged.append(Bound("h", text, 1.02, value, reasons.outside(part, count)))
    return judged


def _thousand(part: Part) -> list[Bound]:
    value = ratio(_walls(part, 1000, "ours"), _walls(part, 1000, "ssh"))
    text = "re-run, 1,000 hosts: ours / plain ssh"
    seconds_ratio = None
    few, many = _walls(part, 100, "ours"), _walls(part, 1000, "ours")
    if few and many:
        seconds_ratio = (median(many) / 1000) / (median(few) / 100)
    return [
        Bound("i", text, 1.5, value, reasons.many(part, 1000)),
        Bound("i", "seconds for each of 1,000 hosts / for each of 100", 1.1, seconds_ratio),
    ]


def _bundle(part: Part) -> list[Bound]:
    runs = part.get("runs", [])
    value = ratio([run["ours"] for run in runs], [run["cp"] + run["sha256sum"] for run in runs])
    text = "bundle of the demo's stack: ours / cp and sha256sum of the same bytes"
    return [Bound("j", text, 1.5, value, reasons.bundle(part))]
