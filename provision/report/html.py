"""Renders a report as one web page that needs nothing else: no script, no font, no network.

It is what one shows to others, and what somebody with 200 hosts works with, often from a file that
was mailed around: so the page opens anywhere, prints, and says the worst first. Everything in it
comes from machines and is escaped; a content security policy forbids the rest.

Pure: the same report gives the same bytes.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from provision import __version__
from provision.report import Report, failed_checks
from provision.report.reading import (
    WORST_FIRST,
    Problem,
    clean,
    counts,
    differences,
    disguise,
    duration,
    matches,
    moment,
    number,
    plural,
    problems,
)

# (key in `wanted` and `found`, what a person calls it). Others follow as they are named.
COLUMNS = {
    "nvidia_driver": "Driver",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "python": "Python",
    "tensorflow": "TensorFlow",
    "nvidia_container_toolkit": "Container toolkit",
}
# A look does not tell these; where no check has told them, nothing is known of them.
ONLY_CHECKED = ("python",)
COMPONENT_NAMES = {
    "nvidia_driver": "NVIDIA driver",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "gpu_env": "Environment",
    "nvidia_container_toolkit": "Container toolkit",
    "tensorflow": "TensorFlow",
    "gpu_workspace": "Workspaces",
    "gpu_front_door": "Front door",
    "receipt": "Receipt",
}
MODES = {
    "run": ("run", "what differs from the lock is applied"),
    "check": ("plan", "nothing was changed"),
    "verify": ("verify", "nothing was changed"),
}
MEANINGS = {
    "proven": "as locked, and every check that applies has passed in this run",
    "converged": "as locked; no check has run now",
    "drift": "something differs from the lock",
    "failed": "a task, the proof or a check failed, or a reboot is owed",
    "blocked": "preflight forbids a start; nothing was changed",
    "unreachable": "Ansible could not reach it",
}
BAD = ("failed", "blocked", "unreachable")
# A longer list of changes that several hosts have in common is shown once.
SHARED_CHANGES = 6
# A longer message is cut in the overview; the host has all of it.
OVERVIEW_MESSAGE = 600
OVERVIEW_HOSTS = 24
# No version is longer; what is would push the table apart.
VERSION = 24
UNKNOWN = "\u2013"
# What stands in a closed host's one line.
SAID = 200
ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


@dataclass(frozen=True)
class Cell:
    """One version in the table: what is there, and what was promised where that is another."""

    found: str
    wanted: str = ""
    state: str = "same"  # same, differs, unknown


@dataclass(frozen=True)
class Bar:
    """A duration, and its share of the longest."""

    name: str
    seconds: float
    share: float
    changed: bool = False

    @property
    def said(self) -> str:
        return duration(self.seconds)


@dataclass
class HostView:
    """One host as the page shows it."""

    name: str
    anchor: str
    status: str
    said: str
    simulated: bool
    cells: list[Cell]
    gpu_count: Cell
    counts: dict[str, int]
    seconds: float
    facts: list[tuple[str, str]]
    problems: list[Problem]
    changes: list[dict[str, Any]]
    changes_title: str
    left: list[dict[str, Any]]
    not_selected: list[str]
    warnings: list[Problem]
    reboot: str
    checks: dict[str, list[dict[str, str]]]
    gpus: list[dict[str, str]]
    stack: str
    bars: list[Bar] = field(default_factory=list)
    shared: str = ""

    @property
    def open(self) -> bool:
        return self.status in BAD

    @property
    def differences(self) -> list[dict[str, Any]]:
        return self.left or self.changes

    @property
    def by_component(self) -> Groups:
        return grouped(self.changes)


@dataclass(frozen=True)
class Trouble:
    """Hosts of which the same is wrong."""

    status: str
    hosts: list[HostView]
    example: bool
    first: HostView

    @property
    def differences(self) -> Groups:
        return grouped(self.first.differences)

    @property
    def few(self) -> bool:
        """Is it little enough to be told in the overview?"""
        return len(self.first.differences) <= SHARED_CHANGES

    @property
    def brief(self) -> list[tuple[str, list[str]]]:
        """(cure, what is wrong), a cure that follows from several things said once."""
        found: list[tuple[str, list[str]]] = []
        for one in self.first.problems:
            message = shortened(one.message or one.title)
            if one.task:
                message = f"{one.title}:\n{message}"
            if found and found[-1][0] == one.cure:
                found[-1][1].append(message)
            else:
                found.append((one.cure, [message]))
        return found


@dataclass(frozen=True)
class Stack:
    """Hosts that were promised the same."""

    id: str
    wanted: list[str]
    hosts: list[HostView]


@dataclass(frozen=True)
class Shared:
    """A list of changes that several hosts have in common."""

    anchor: str
    title: str
    hosts: list[HostView]
    changes: Groups
    count: int


@dataclass(frozen=True)
class Time:
    """How long a component took, over the hosts where it ran; shares are of the longest of all."""

    name: str
    hosts: int
    median: float
    slowest: float
    where: HostView
    longest: float = 1.0

    @property
    def median_share(self) -> float:
        return 100 * self.median / self.longest

    @property
    def slowest_share(self) -> float:
        return 100 * self.slowest / self.longest


@dataclass(frozen=True)
class Headline:
    """What the page says first. `tone` is good, warn or bad."""

    verdict: str
    rest: list[str]
    simulated: str
    tone: str


def render(report: Report) -> bytes:
    """The page of a (validated) report."""
    folder = Path(__file__).parent
    style = _style((folder / "page.css").read_text(encoding="utf-8"))
    text = _template().render(page=Page(report), style=Markup(style))  # noqa: S704 (our own file)
    return text.encode()


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = prose
    environment.filters["plural"] = plural
    environment.filters["duration"] = duration
    text = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text)


def _style(text: str) -> str:
    """The style sheet without its comments and indents."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def prose(text: str) -> Markup:
    """Text with `commands` set as such."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick: none of them can be trusted
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def shortened(text: str) -> str:
    """A long message's beginning and end: tools say what they do, and last what failed."""
    if len(text) <= OVERVIEW_MESSAGE:
        return text
    half = OVERVIEW_MESSAGE // 2
    return f"{text[:half].rstrip()}\n[…]\n{text[-half:].lstrip()}"


def component(name: Any) -> str:
    return COMPONENT_NAMES.get(str(name), clean(name))


Groups = list[tuple[str, int, list[tuple[str, list[dict[str, Any]]]]]]


def grouped(changes: Iterable[dict[str, Any]]) -> Groups:
    """Changes by component, and in it by reason: (component, how many, [(reason, changes)])."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for one in changes:
        found.setdefault(one["component"], {}).setdefault(one["reason"], []).append(one)
    return [
        (name, sum(map(len, reasons.values())), list(reasons.items()))
        for name, reasons in found.items()
    ]


class Page:
    """All that the template asks for."""

    def __init__(self, report: Report) -> None:
        self.version = __version__
        self.interrupted = bool(report.get("interrupted"))
        mode = str(report.get("mode"))
        self.mode, self.mode_means = MODES.get(mode, (clean(mode), ""))
        self.facts = _run_facts(report)
        self.columns = _columns(report)
        longest = max(
            (
                number(part.get("seconds"))
                for host in report["hosts"].values()
                for part in (host.get("components") or {}).values()
            ),
            default=0.0,
        )
        views = [
            _host(name, host, mode, list(self.columns), longest)
            for name, host in report["hosts"].items()
        ]
        # Stable: hosts of one status stay in the report's order.
        self.hosts = sorted(views, key=lambda view: WORST_FIRST.index(view.status))
        self.by_status = [
            (status, found)
            for status in WORST_FIRST
            if (found := [view for view in self.hosts if view.status == status])
        ]
        self.headline = headline(report)
        self.trouble = _trouble(self.hosts)
        wrong = any(view.open for view in views)
        self.trouble_title = "What is wrong" if wrong else "What differs"
        self.stacks = _stacks(self.hosts, report, list(self.columns))
        self.shared = _shared(self.hosts)
        self.times = _times(self.hosts)
        self.elsewhere = [
            (clean(name), moment(entry.get("time")) if isinstance(entry, dict) else "")
            for name, entry in sorted((report.get("proven") or {}).items())
            if name not in report["hosts"]
        ]
        self.meanings = [(status, MEANINGS[status]) for status, _ in self.by_status]
        self.overview_hosts = OVERVIEW_HOSTS
        self.checked = any(view.counts for view in views)
        self.timed = any(view.seconds for view in views)
        self.width = 3 + len(self.columns) + self.checked + self.timed
        self.all_simulated = all(view.simulated for view in views)


def headline(report: Report) -> Headline:
    """The verdict in one line, what is not good, and whether GPUs are simulated."""
    hosts = list(report["hosts"].values())
    total = len(hosts)
    by = {status: sum(1 for h in hosts if h["status"] == status) for status in WORST_FIRST}
    bad = sum(by[status] for status in BAD)
    tone = "bad" if bad or report.get("interrupted") or not hosts else "good"
    shown = "converged"
    check = report.get("mode") == "check"
    if not hosts:
        return Headline(
            "No host was looked at", ["does the pattern or --limit match any?"], "", tone
        )
    if check:
        verdict = f"{_of(by['converged'], total)} as locked"
        if by["drift"]:
            shown = "drift"
            verb = "differs" if by["drift"] == 1 else "differ"
            verdict = f"{_of(by['drift'], total)} {verb} from the lock"
    elif not by["converged"]:
        verdict, shown = f"{_of(by['proven'], total)} proven", "proven"
    else:
        # Hosts that were as locked already are looked at and not checked: no worse, but no proof.
        verdict = f"{_of(by['proven'] + by['converged'], total)} as locked"
        shown = "converged" if not by["proven"] else ""
    if tone == "good" and (by["drift"]):
        tone = "warn"
    words = {"converged": "as locked" if check else "not checked now", "drift": "not as locked"}
    if not shown:
        words["proven"] = "proven now"
    rest = [
        f"{by[status]} {words.get(status, status)}"
        for status in WORST_FIRST
        if by[status] and status != shown
    ]
    if shown == "converged" and not check:
        rest.append("no check has run now")
    if report.get("interrupted"):
        rest.insert(0, "interrupted")
    if report.get("not_begun"):
        rest.append(f"{len(report['not_begun']['hosts'])} not begun")
    simulated = sum(1 for host in hosts if host.get("simulated_gpu"))
    where = ""
    if simulated:
        where = _of(simulated, total).replace("All", "all").replace("Both", "both")
    return Headline(verdict, rest, where, tone)


def _of(count: int, total: int) -> str:
    """ "All 3 hosts", "2 of 3 hosts", "None of 3 hosts"."""
    if total == 1:
        return "1 host" if count else "0 of 1 host"
    if count == total:
        return "Both hosts" if total == 2 else f"All {total} hosts"
    return f"{count} of {total} hosts"


def _run_facts(report: Report) -> list[tuple[str, str]]:
    mode, means = MODES.get(str(report.get("mode")), (clean(report.get("mode")), ""))
    digest = clean(report.get("lock_digest"))
    facts = [
        ("Mode", f"{mode}: {means}" if means else mode),
        ("Finished", moment(report.get("finished"))),
        ("Took", duration(number(report.get("seconds")))),
        ("Rendered by", f"provision {clean(report.get('provision') or 'unknown')}"),
        ("Lock", digest),
    ]
    return [(name, value) for name, value in facts if value]


def _columns(report: Report) -> dict[str, str]:
    """The components that are promised or present anywhere, in their order."""
    present = {
        str(key)
        for host in report["hosts"].values()
        for part in ("wanted", "found")
        for key in (host.get(part) or {})
        if part == "wanted" or key in COLUMNS
    }
    always = ("nvidia_driver", "cuda", "cudnn", "tensorflow")
    known = {key: title for key, title in COLUMNS.items() if key in present or key in always}
    return known | {key: component(key) for key in sorted(present) if key not in COLUMNS}


def _host(
    name: str, host: dict[str, Any], mode: str, columns: list[str], longest: float
) -> HostView:
    simulated = bool(host.get("simulated_gpu"))
    changes = [_change(one) for one in host.get("changes") or []]
    parts = host.get("components") or {}
    checks: dict[str, list[dict[str, str]]] = {"failed": [], "not_applicable": [], "passed": []}
    for row in host.get("checks") or []:
        entry = {key: clean(row.get(key)) for key in ("title", "detail", "diagnosis", "hint", "id")}
        entry["title"] = entry["title"] or entry["id"]
        checks.get(str(row.get("result")), checks["failed"]).append(entry)
    reboot = host.get("reboot") or {}
    return HostView(
        name=clean(name),
        # Quoted, the anchor is free of spaces and of everything that means something in a link.
        anchor="host-" + quote(clean(name), safe=""),
        status=host["status"],
        said=_said(host),
        simulated=simulated,
        cells=_cells(host, columns),
        gpu_count=_gpu_count(host),
        counts=counts(host),
        seconds=sum(number(part.get("seconds")) for part in parts.values()),
        facts=_facts(host),
        problems=problems(host),
        changes=changes,
        changes_title=_changes_title(host["status"], mode),
        left=[_change(one) for one in host.get("left") or []],
        not_selected=[component(_component_of(one)) for one in host.get("not_selected") or []],
        warnings=[
            Problem(
                component(row.get("component") or ""),
                clean(row.get("message")),
                clean(row.get("hint")),
            )
            for row in host.get("warnings") or []
        ],
        reboot=clean(reboot.get("reason") or "needed") if reboot.get("needed") else "",
        checks=checks,
        gpus=_gpus(host),
        stack=clean(host.get("stack")),
        bars=[
            Bar(
                component(key),
                number(part.get("seconds")),
                100 * number(part.get("seconds")) / longest if longest else 0.0,
                bool(part.get("changed")),
            )
            for key, part in parts.items()
        ],
    )


def _component_of(item: Any) -> Any:
    return item.get("component") if isinstance(item, dict) else item


def _change(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "component": component(one.get("component")),
        "item": clean(one.get("item")),
        "old": "none" if one.get("from") is None else clean(one["from"]),
        "new": "none" if one.get("to") is None else clean(one["to"]),
        "reason": clean(one.get("reason")),
        "reboot": bool(one.get("reboot")),
        "selected": one.get("selected", True) is not False,
    }


def _changes_title(status: str, mode: str) -> str:
    if mode == "check":
        return "What a run would change"
    if mode == "verify":
        return "What differs from the lock"
    if status in ("proven", "converged"):
        return "What changed"
    return "What was to change"


def _cells(host: dict[str, Any], columns: list[str]) -> list[Cell]:
    found, wanted = host.get("found") or {}, host.get("wanted") or {}
    looked = bool(host.get("stack")) and host["status"] != "unreachable"
    cells = []
    for key in columns:
        is_, promised = found.get(key), wanted.get(key)
        if is_ is None and key in (host.get("absent") or ()):
            cells.append(Cell("absent"))
        elif is_ is None and (promised is None or key in ONLY_CHECKED or not looked):
            cells.append(Cell(UNKNOWN, state="unknown"))
        elif matches(is_, promised):
            cells.append(Cell(_version(is_)))
        else:
            cells.append(
                Cell("none" if is_ is None else _version(is_), _version(promised), "differs")
            )
    return cells


def _version(value: Any) -> str:
    text = " ".join(clean(value).split())
    return text if len(text) <= VERSION else text[: VERSION - 1] + "…"


def _gpu_count(host: dict[str, Any]) -> Cell:
    """The GPUs that the deepest layer asked lists, beside those the host has."""
    found = host.get("found") or {}
    on_bus = len(host.get("gpus") or [])
    driver, tensorflow = found.get("gpus"), found.get("tensorflow_gpus")
    if host["status"] == "unreachable" or not host.get("platform"):
        return Cell(UNKNOWN, state="unknown")
    count = next((int(number(n)) for n in (tensorflow, driver) if n is not None), on_bus)
    expected = max(on_bus, int(number(driver)))
    if count < expected:
        return Cell(str(count), f"{expected}", "differs")
    return Cell(str(count))


def _gpus(host: dict[str, Any]) -> list[dict[str, str]]:
    """The host's GPUs: those on the bus, with what NVML says of each."""
    devices = (host.get("found") or {}).get("gpu_devices")
    told = {
        clean(device.get("pci")): device
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    }
    asked = isinstance(devices, list)
    rows = []
    for gpu in host.get("gpus") or []:
        address = clean(gpu.get("pci"))
        device = told.pop(address, None)
        if device is not None:
            usable = "yes"
        elif asked or gpu.get("usable") is False:
            usable = "no: the driver does not show it"
        else:
            usable = "not asked"
        rows.append(
            _gpu(address, device or {}, usable, clean(gpu.get("name") or gpu.get("device")))
        )
    # A container may hide its bus.
    rows += [_gpu(address, device, "yes", "") for address, device in told.items()]
    return rows


def _gpu(address: str, device: dict[str, Any], usable: str, name: str) -> dict[str, str]:
    return {
        "pci": address,
        "name": clean(device.get("name")) or (f"device {name}" if name.startswith("0x") else name),
        "uuid": clean(device.get("uuid")),
        "memory": clean(device.get("memory")),
        "usable": usable,
    }


def _facts(host: dict[str, Any]) -> list[tuple[str, str]]:
    platform = host.get("platform") or {}
    words = [platform.get("pretty"), platform.get("architecture")]
    if not words[0]:
        words = [platform.get(key) for key in ("distribution", "release", "architecture")]
    system = " ".join(clean(word) for word in words if word)
    if system and host.get("container"):
        system += ", in a container"
    if disguise(host):
        system += f"; {disguise(host)}"
    facts = [
        ("Platform", system),
        ("Kernel", clean(platform.get("kernel"))),
        ("Stack", clean(host.get("stack"))),
        ("Last proven", moment(host.get("last_proven")) if host.get("last_proven") else "never"),
    ]
    return [(name, value) for name, value in facts if value]


def _said(host: dict[str, Any]) -> str:
    """One line on why the host has its status."""
    status = host["status"]
    if status in BAD:
        found = problems(host)
        bad = failed_checks(host)
        first = found[0].message.strip().partition("\n")[0] or found[0].title
        first = f"{found[0].title}: {first}" if found[0].task else first
        first = first if len(first) <= SAID else first[: SAID - 1] + "…"
        if len(found) > 1:
            what = plural(len(bad), "check") + " failed" if bad else plural(len(found), "blocker")
            return f"{what}; first: {first}"
        return first
    told = differences(host) if status == "drift" else host.get("changes") or []
    changed = list(dict.fromkeys(component(one.get("component")) for one in told))
    if status == "drift":
        return "differs in " + ", ".join(changed) if changed else "differs from its lock"
    said = ["changed " + ", ".join(changed) if changed else "nothing to change"]
    tally = counts(host)
    if tally:
        said.append(f"{plural(tally['passed'], 'check')} passed")
        if tally["not_applicable"]:
            said.append(f"{tally['not_applicable']} not applicable")
    elif host.get("last_proven"):
        said.append(f"last proven {moment(host['last_proven'])}")
    return "; ".join(said)


def _trouble(hosts: list[HostView]) -> list[Trouble]:
    """The hosts that are not as they should be, those with the same trouble together.

    One cause is mostly many hosts'.
    """
    groups: dict[str, list[HostView]] = {}
    differ: set[str] = set()
    known: dict[str, str] = {}
    for view in hosts:
        if view.status not in (*BAD, "drift"):
            continue
        if view.status == "drift":
            same = said = json.dumps(view.differences)
        else:
            said = json.dumps([view.status, *([p.title, p.message, p.cure] for p in view.problems)])
            # The host's own name and address make no other cause.
            name = re.escape(json.dumps(view.name)[1:-1])
            same = re.sub(rf"(?<![\w.-]){name}(?![\w.-])", "HOST", said)
            same = ADDRESS.sub("ADDRESS", same)
        key = known.get(said) or known.get(same) or said
        if key in groups and key != said:
            differ.add(key)
        known[said] = known[same] = key
        groups.setdefault(key, []).append(view)
    return [
        Trouble(found[0].status, found, key in differ, found[0]) for key, found in groups.items()
    ]


def _stacks(hosts: list[HostView], report: Report, columns: list[str]) -> list[Stack]:
    """The table's groups; the one with the worst host first."""
    promised = {
        clean(host.get("stack")): host.get("wanted") or {} for host in report["hosts"].values()
    }
    # Hosts without a stack were never looked at: bad ones, all of them.
    groups: dict[str, list[HostView]] = {}
    for view in sorted(hosts, key=lambda view: bool(view.stack)):
        groups.setdefault(view.stack, []).append(view)
    return [
        Stack(
            stack,
            [_version(promised[stack].get(key)) or UNKNOWN for key in columns],
            found,
        )
        for stack, found in groups.items()
    ]


def _shared(hosts: list[HostView]) -> list[Shared]:
    """Long lists of changes that several hosts have in common, each once; the hosts refer to it."""
    groups: dict[str, list[HostView]] = {}
    for view in hosts:
        if len(view.changes) > SHARED_CHANGES:
            groups.setdefault(json.dumps([view.changes_title, view.changes]), []).append(view)
    found: list[Shared] = []
    for views in groups.values():
        if len(views) < 2:
            continue
        anchor = f"changes-{len(found) + 1}"
        for view in views:
            view.shared = anchor
        first = views[0]
        found.append(
            Shared(anchor, first.changes_title, views, first.by_component, len(first.changes))
        )
    return found


def _times(hosts: list[HostView]) -> list[Time]:
    """Per component: on how many hosts it ran, the median, and the slowest host."""
    ran: dict[str, list[tuple[float, HostView]]] = {}
    for view in hosts:
        for bar in view.bars:
            ran.setdefault(bar.name, []).append((bar.seconds, view))
    rows = []
    for name, found in ran.items():
        slowest, where = max(found, key=lambda pair: pair[0])
        median = statistics.median(seconds for seconds, _ in found)
        rows.append(Time(name, len(found), median, slowest, where))
    longest = max((row.slowest for row in rows), default=0.0) or 1.0
    return [replace(row, longest=longest) for row in rows]
