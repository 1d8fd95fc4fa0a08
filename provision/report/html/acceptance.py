"""The page of an acceptance: what is wrong, every GPU, and each host's checks and topology.

Of the same look as a run's page, and like it without script, font or network. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from provision import __version__
from provision.report.html import plots
from provision.report.html.figures import LINE, Past, figures
from provision.report.html.page import environment, style
from provision.report.reading import clean, plural

WORST_FIRST = ("failed", "degraded", "error", "unreachable", "not applicable", "ok")
BAD = ("failed", "degraded", "error", "unreachable")
MEANINGS = {
    "ok": "asked, and as it should be",
    "degraded": "it works, and not as it should",
    "failed": "it does not work, or must not be trusted",
    "measured": "a value that nothing is known to compare with; never a pass",
    "not applicable": "it can't be asked here; never a pass",
    "error": "the host could not be judged",
    "unreachable": "Ansible could not reach it",
}
# Of the circle in a host's topology, in the picture's own units.
RADIUS = 100.0
# Of a GPU in it; smaller where so many would cover each other.
GPU_RADIUS = 17.0
GIB = 2**30
# Returns the findings of a verdict that are degraded or failed, each with its subject.
Blamed = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Fault:
    """One finding that is degraded or failed."""

    state: str
    host: str
    subject: str
    reason: str
    evidence: list[str]
    action: str
    how: str


@dataclass(frozen=True)
class Line:
    """A way between two GPUs, as a line of the picture."""

    x1: float
    y1: float
    x2: float
    y2: float
    level: str
    kind: str


@dataclass(frozen=True)
class Column:
    """A column of the table of GPUs, beside host, index and verdict.

    key: of a GPU's row. kind: the cells' CSS class. named: whether its name is shown with the value
    where the head is not, on paper and on phones.
    """

    name: str
    key: str
    kind: str = ""
    named: bool = True


COLUMNS = (
    Column("Next", "next"),
    Column("Model", "name", named=False),
    Column("Memory", "memory", "n"),
    Column("Slot", "slot", "whole"),
    Column("Address", "pci", "mono whole"),
    Column("PCIe lanes", "lanes", "whole"),
    Column("Temperature", "temperature", "n"),
    Column("In use by", "users", "users"),
    Column("UUID", "uuid", "mono uuid", named=False),
)


def render(report: Mapping[str, Any], blamed: Blamed, past: Past) -> bytes:
    """The page of report/acceptance.json; `blamed` returns a verdict's faults.

    `past`: by UUID and figure, what former acceptances measured.
    """
    css = Markup(style())  # noqa: S704 (our own file)
    frames = {"line": LINE, "rates": plots.RATES, "card": plots.CARD}
    text = _template().render(page=Page(report, blamed, past), frames=frames, style=css)
    return text.encode()


@cache
def _template() -> jinja2.Template:
    text = Path(__file__).with_name("acceptance.html.j2").read_text("utf-8")
    return environment().from_string(text)


class Page:
    """Everything that the template reads."""

    def __init__(self, report: Mapping[str, Any], blamed: Blamed, past: Past) -> None:
        self.version = __version__
        hosts = [Host(name, entry, blamed, past) for name, entry in report["hosts"].items()]
        self.warnings = [clean(text) for text in report.get("warnings") or ()]
        # Stable: hosts of one status stay in the report's order.
        self.hosts = sorted(hosts, key=lambda host: WORST_FIRST.index(host.status))
        self.faults = [fault for host in self.hosts for fault in host.faults]
        gpus = [gpu for host in hosts for gpu in host.gpus]
        self.gpus = len(gpus)
        self.columns = [column for column in COLUMNS if any(gpu[column.key] for gpu in gpus)]
        sick = sum(gpu["verdict"] in BAD for gpu in gpus)
        ill = [host for host in hosts if host.status in BAD]
        worse = any(host.status != "degraded" for host in ill)
        self.tone = "bad" if worse else "warn" if ill else ""
        self.verdict = self._verdict(sick, ill)
        alone = sum(bool(gpu["left_alone"]) for gpu in gpus)
        parts = (
            f"{len(ill)} of {plural(len(hosts), 'host')} not well" if ill else "",
            f"{alone} of {plural(len(gpus), 'GPU')} left alone: not loaded" if alone else "",
        )
        self.rest = "; ".join(filter(None, parts))
        self.simulated = sum(host.simulated for host in hosts)
        self.all_simulated = self.simulated == len(hosts)
        self.stand_in = any(host.stand_in for host in hosts)
        loaded = {host.level for host in hosts} - {"", "quick"}
        self.asked = f"level {', '.join(sorted(loaded))}" if loaded else UNLOADED
        self.meanings = MEANINGS
        # A page of one host is opened for that host.
        self.alone = len(hosts) == 1

    def _verdict(self, sick: int, ill: Sequence[Host]) -> str:
        if sick:
            return f"{sick} of {plural(self.gpus, 'GPU')} not well"
        if ill:
            return f"{plural(len(ill), 'host')} not well"
        return f"{plural(self.gpus, 'GPU')} well" if self.gpus else "No GPU"


# What was asked of GPUs that no program has loaded.
UNLOADED = "without a load on any GPU: what bus, driver and kernel say"


class Host:
    """A host of the report as the page shows it."""

    def __init__(self, name: str, entry: Mapping[str, Any], blamed: Blamed, past: Past) -> None:
        verdict: Mapping[str, Any] = entry["acceptance"] or {}
        self.name = clean(name)
        self.status: str = entry["status"]
        self.message = clean(entry["message"])
        self.simulated = bool(verdict.get("simulated"))
        self.stand_in = bool(verdict.get("stand_in"))
        self.level = str(verdict.get("level") or "")
        self.driver = clean(verdict.get("driver") or "")
        self.checks = [_check(check) for check in verdict.get("checks") or []]
        self.figures = figures(verdict.get("checks") or [], {})
        self.gpus = [_gpu(gpu, past) for gpu in verdict.get("gpus") or []]
        self.pairs: Mapping[str, str] = verdict.get("pairs") or {}
        self.sets: Mapping[str, list[int]] = verdict.get("sets") or {}
        self.faults = self._faults(verdict, blamed)
        self.lines, self.nodes = _picture(self.pairs)
        self.size = round(min(GPU_RADIUS, 0.9 * math.pi * RADIUS / max(1, len(self.nodes))), 1)
        self.rates = plots.rates(verdict)
        self.loads = plots.loads(verdict)

    def _faults(self, verdict: Mapping[str, Any], blamed: Blamed) -> list[Fault]:
        if not verdict:
            return [Fault(self.status, self.name, "", self.message, [], "", "")]
        return [
            Fault(
                fault["state"],
                self.name,
                clean(fault["subject"]),
                clean(fault["reason"]),
                [clean(line) for line in fault["evidence"]],
                clean(fault["action"]),
                clean(fault["how"]),
            )
            for fault in blamed(verdict)
        ]


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": clean(check["check"]),
        "state": check["state"],
        "reason": clean(check["reason"]),
    }


def _gpu(gpu: Mapping[str, Any], past: Past) -> dict[str, Any]:
    """A GPU's row of the table, and its checks by their states."""
    measured = gpu["measured"]
    pcie, memory = measured.get("pcie") or {}, measured.get("memory") or {}
    lanes, possible = pcie.get("width"), pcie.get("width_possible")
    users = [check for check in gpu["checks"] if check["check"] == "users"]
    return {
        "index": gpu["index"],
        "verdict": gpu["verdict"],
        "next": "" if gpu["action"] == "nothing" else gpu["action"],
        **{key: clean(gpu[key] or "") for key in ("name", "uuid", "serial", "slot", "pci")},
        "memory": f"{memory['total'] / GIB:.0f} GiB" if memory.get("total") else "",
        "lanes": f"{lanes} of {possible}" if lanes and possible else "",
        "temperature": f"{measured['temperature']} °C" if measured.get("temperature") else "",
        "left_alone": clean(gpu.get("left_alone") or ""),
        "users": "; ".join(clean(line) for check in users for line in check["evidence"]),
        "checks": [_check(check) for check in gpu["checks"]],
        "figures": figures(gpu["checks"], past.get(gpu["uuid"]) or {}),
    }


def _picture(pairs: Mapping[str, str]) -> tuple[list[Line], list[tuple[int, float, float]]]:
    """(the ways between the GPUs, the GPUs with their places on a circle)."""
    indexes = sorted({int(index) for pair in pairs for index in pair.split("-")})
    places = {}
    for place, index in enumerate(indexes):
        angle = 2 * math.pi * place / len(indexes) - math.pi / 2
        places[index] = (round(RADIUS * math.cos(angle), 1), round(RADIUS * math.sin(angle), 1))
    lines = []
    for pair, level in pairs.items():
        first, second = (int(index) for index in pair.split("-"))
        kind = "nv" if level.startswith("NV") else level.lower()
        lines.append(Line(*places[first], *places[second], clean(level), kind))
    # The best ways are drawn last, over the others.
    order = ("unknown", "sys", "node", "phb", "pxb", "pix", "x", "nv")
    lines.sort(key=lambda line: order.index(line.kind) if line.kind in order else 0)
    return lines, [(index, *places[index]) for index in indexes]
