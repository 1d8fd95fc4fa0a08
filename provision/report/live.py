"""Shows a run while it happens: hosts by components, and every failure at once.

Ansible's own output interleaves all hosts task by task; with thirty hosts it does not show which
host hangs where, and the download of a gigabyte looks like a hang. Hosts with trouble come first,
then those longest at one step; the others are counted. Without a terminal (a pipe, CI) the same
events are plain lines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from provision.registry import SHORT_TITLES
from provision.report import cures

# (mark, mark for an ASCII terminal, style); marks differ in shape for people who see no colours.
MARKS = {
    "planned": ("·", ".", "dim"),
    "running": ("▶", ">", "bold cyan"),
    "done": ("✔", "+", "green"),
    "failed": ("✘", "x", "bold red"),
}
BAD = ("failed", "unreachable", "blocked")
# Lines around the table: its header, the counts, the prompt.
MARGIN = 5
# Hosts with trouble get at least 1/BAD_SHARE of the table; their failures are shown in full above.
BAD_SHARE = 3
# Without a terminal: the least time between two progress lines of a step, and more of it per host.
LINE_SECONDS = 15.0
LINE_SECONDS_PER_HOST = 1.5
# A step's time is shown after this many seconds.
SHORT = 3.0


@dataclass
class HostView:
    """The state of one host."""

    phase: str = ""
    planned: list[str] = field(default_factory=list)
    components: dict[str, str] = field(default_factory=dict)
    status: str = ""
    simulated: bool = False
    # The current or last task, and since when. A host that is not busy waits for the others.
    task: str = ""
    busy: bool = False
    since: float = 0.0
    # The progress event of a long step, and since when the step runs.
    progress: dict[str, Any] = field(default_factory=dict)
    step: tuple[str, str] = ("", "")
    step_since: float = 0.0
    line_at: float = 0.0

    @property
    def rank(self) -> int:
        """0: in trouble, 1: busy, 2: waiting, 3: finished."""
        if self.status in BAD:
            return 0
        if self.status:
            return 3
        return 1 if self.busy else 2


class LiveView:
    """Takes events and shows them. A context manager.

    `reported`: the hosts whose failure was shown in full, so that a summary need not repeat it.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live: Live | None = None
        self._started = clock()
        # The table is drawn by a thread of rich's own, a few times a second.
        self._lock = threading.Lock()
        self._components: list[str] = list(SHORT_TITLES)
        self._expected = 0
        self._interrupted = False
        self.hosts: dict[str, HostView] = {}
        self.reported: set[str] = set()

    def __enter__(self) -> LiveView:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            yield self._table(ascii_only=options.ascii_only)

    def on_event(self, event: dict[str, Any]) -> None:
        """Takes one line of events.jsonl. Unknown events are ignored."""
        # Starts with the first play: until then Ansible may prompt for a password.
        if self._live is None and self._console.is_terminal and event.get("event") == "play":
            self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        with self._lock:
            line = self._take(event)
        if line is not None:
            self._console.print(line, soft_wrap=not self._console.is_terminal)

    def _take(self, event: dict[str, Any]) -> Text | None:
        """Updates the hosts; returns the line to print at once, or None."""
        kind = event.get("event")
        if kind == "run_start":
            self._components = [
                str(component) for component in event.get("components") or self._components
            ]
        elif kind == "play":
            self._expected = max(self._expected, int(event.get("hosts") or 0))
        elif kind == "interrupt":
            return self._interrupt()
        elif kind == "run_end":
            for host, status in (event.get("statuses") or {}).items():
                self._host(str(host)).status = str(status)
        name = event.get("host")
        return self._take_of_host(str(name), event) if name else None

    def _take_of_host(self, name: str, event: dict[str, Any]) -> Text | None:
        kind = event.get("event")
        host = self._host(name)
        if kind == "progress":
            return self._progress(name, host, event)
        if event.get("phase"):
            host.phase = str(event["phase"])
        if kind == "plan":
            return self._planned(name, host, event)
        if kind == "host_start":
            return self._begins(name, host, event)
        if kind == "host_result":
            host.busy = False
            if event.get("status") in ("failed", "unreachable") and not event.get("rescued"):
                return self._failed(name, host, event)
        return None

    def _interrupt(self) -> Text:
        self._interrupted = True
        return Text("Interrupted: stopping. dpkg is never stopped in its work.", "bold yellow")

    def _planned(self, name: str, host: HostView, event: dict[str, Any]) -> Text | None:
        components = [str(component) for component in event.get("components") or []]
        host.simulated = bool(event.get("simulated_gpu"))
        label = f"{name} (simulated GPU)" if host.simulated else name
        if event.get("phase") == "proof":
            for component in host.planned:
                host.components[component] = "failed" if component in components else "done"
            return None
        host.planned = [component for component in components if component in self._components]
        host.components = dict.fromkeys(host.planned, "planned")
        if not components and not event.get("blockers"):
            host.status = "as locked"
        if self._console.is_terminal:
            return None
        count = event.get("changes")
        if event.get("blockers"):
            return Text(f"{label}: blocked")
        if not components:
            left = f"; {count} changes left out by tags" if count else ""
            return Text(f"{label}: nothing to change{left}")
        word = "change" if count == 1 else "changes"
        return Text(f"{label}: {count} {word} in {', '.join(components)}")

    def _begins(self, name: str, host: HostView, event: dict[str, Any]) -> Text | None:
        now = self._clock()
        task = str(event.get("task") or "")
        if not (host.busy and host.task == task):
            host.since = now
            host.progress, host.step = {}, ("", "")
        host.task, host.busy = task, True
        if host.status == "as locked":  # verify continues with this host
            host.status = ""
        component = event.get("component")
        if not component or host.components.get(str(component)) == "running":
            return None
        for previous, state in host.components.items():
            if state == "running":
                host.components[previous] = "done"
        host.components[str(component)] = "running"
        return None if self._console.is_terminal else Text(f"{name}: {component}")

    def _progress(self, name: str, host: HostView, event: dict[str, Any]) -> Text | None:
        now = self._clock()
        step = (str(event.get("component")), str(event.get("phase")))
        fresh = step != host.step
        if fresh:
            host.step, host.step_since = step, now
        host.progress = event
        if self._console.is_terminal:
            return None
        pause = max(LINE_SECONDS, LINE_SECONDS_PER_HOST * len(self.hosts))
        if not fresh and now - host.line_at < pause:
            return None
        host.line_at = now
        return Text(f"{name}: {step[0]}: {how_far(event)}")

    def _failed(self, name: str, host: HostView, event: dict[str, Any]) -> Text | None:
        component = event.get("component")
        host.status = str(event["status"])
        if component:
            host.components[str(component)] = "failed"
        self.reported.add(name)
        message = str(event.get("message", "")).strip().replace("\n", "\n  ")
        if host.status == "unreachable":
            reason = message.removeprefix("Task failed: ")
            cure = f"\n    cure: {cures.unreachable(message)}"
            return Text.assemble((f"{name} is unreachable: ", "bold red"), reason, cure)
        if host.phase == "verify":
            return Text.assemble((f"{name} is not proven:", "bold red"), f"\n  {message}")
        if host.phase == "preflight":
            return Text.assemble((f"{name} is blocked: ", "bold red"), message)
        where = f" in {component}" if component else ""
        return Text.assemble(
            (f"{name} {host.status}{where}: ", "bold red"), f"{event.get('task')}\n  {message}"
        )

    def _host(self, name: str) -> HostView:
        return self.hosts.setdefault(name, HostView(since=self._clock()))

    # the table

    def _table(self, *, ascii_only: bool = False) -> Table:
        shown = [
            component
            for component in self._components
            if any(component in host.components for host in self.hosts.values())
        ]
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        table.add_column("host", no_wrap=True)
        for component in shown:
            table.add_column(SHORT_TITLES.get(component, component), justify="center", no_wrap=True)
        table.add_column("now", no_wrap=True, overflow="ellipsis", ratio=1)
        for name, host in self._rows(max(3, self._console.height - MARGIN)):
            cells = [Text(name)]
            for component in shown:
                mark, plain, style = MARKS.get(host.components.get(component, ""), ("", "", ""))
                cells.append(Text(plain if ascii_only else mark, style))
            cells.append(self._now(host))
            table.add_row(*cells)
        table.expand = True
        table.caption = self._counts()
        table.caption_justify = "left"
        return table

    def _rows(self, room: int) -> Iterator[tuple[str, HostView]]:
        """The hosts that fit into `room` lines; the others are only counted."""
        ordered = sorted(
            self.hosts.items(),
            # Among busy hosts, the one longest at its step first.
            key=lambda pair: (pair[1].rank, pair[1].since if pair[1].rank == 1 else 0.0, pair[0]),
        )
        if len(ordered) > room:
            bad = [pair for pair in ordered if pair[1].rank == 0]
            others = [pair for pair in ordered if pair[1].rank != 0]
            kept = max(room // BAD_SHARE, room - len(others))
            ordered = bad[:kept] + others
        yield from ordered[:room]

    def _now(self, host: HostView) -> Text:
        if host.status in BAD:
            return Text(host.status, "bold red")
        if host.status:
            return Text(host.status, "dim")
        now = self._clock()
        running = next(
            (component for component, state in host.components.items() if state == "running"), None
        )
        if host.busy and host.progress and host.step[0] == running and host.phase == "apply":
            return Text(how_far(host.progress) + _clock_of(now - host.step_since))
        if not host.busy:
            others = any(peer.busy for peer in self.hosts.values())
            return Text("waits for the other hosts" if others else "", "dim")
        return Text(_step(host.task) + _clock_of(now - host.since))

    def _counts(self) -> Text:
        count = dict.fromkeys(range(4), 0)
        for host in self.hosts.values():
            count[host.rank] += 1
        total = max(len(self.hosts), self._expected)
        count[2] += total - len(self.hosts)
        words = ("in trouble", "at work", "waiting", "finished")
        parts = [f"{count[rank]} {word}" for rank, word in enumerate(words) if count[rank]]
        seconds = self._clock() - self._started
        state = ", stopping" if self._interrupted else ""
        hosts = "1 host" if total == 1 else f"{total} hosts"
        return Text(f"{hosts}: {', '.join(parts)}; {duration(seconds)}{state}")


def _step(task: str) -> str:
    """ "Install in one transaction", of "cuda : packages | Install in one transaction"."""
    return task.rpartition(" : ")[2].rpartition(" | ")[2]


def _clock_of(seconds: float) -> str:
    return f", {duration(seconds)}" if seconds >= SHORT else ""


def duration(seconds: float) -> str:
    """ "95 s", "12 min 5 s"."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s"


def how_far(event: dict[str, Any]) -> str:
    """ "downloading packages, 312 of 1310 MB (23 %)"."""
    text, done, total = str(event.get("text", "")), event.get("bytes"), event.get("total")
    if not isinstance(done, int):
        return text
    if isinstance(total, int) and total >= done > 0:
        return f"{text}, {done / 1e6:.0f} of {total / 1e6:.0f} MB ({100 * done // total} %)"
    return f"{text}, {done / 1e6:.0f} MB"


def view(console: Console) -> LiveView:
    """The live view on this console: a live table on a terminal, plain lines elsewhere."""
    return LiveView(console)
