"""Shows a run while it happens: hosts by components, and every failure the moment it is known.

Ansible's own output interleaves all hosts task by task; with thirty hosts nobody can tell from it
which one hangs in what. Without a terminal (a pipe, CI) the same events are plain lines.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

COMPONENTS = (
    "nvidia_driver",
    "cuda",
    "cudnn",
    "gpu_env",
    "nvidia_container_toolkit",
    "tensorflow",
)
# (mark, style); the words are for those who can't see colours.
MARKS = {
    "planned": ("planned", "dim"),
    "running": ("running", "bold cyan"),
    "done": ("done", "green"),
    "failed": ("failed", "bold red"),
}
# Lines around the table: its head, the summary, the prompt.
MARGIN = 6


@dataclass
class HostView:
    """What is shown of one host."""

    phase: str = ""
    planned: list[str] = field(default_factory=list)
    components: dict[str, str] = field(default_factory=dict)
    status: str = ""
    simulated: bool = False
    since: float = 0.0

    @property
    def rank(self) -> int:
        """Hosts that something is wrong with first, then the busy ones, then the finished."""
        if self.status in ("failed", "unreachable"):
            return 0
        return 2 if self.status else 1


class LiveView:
    """Takes events and shows them. A context manager."""

    def __init__(self, console: Console, *, clock: Any = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live: Live | None = None
        self._started = clock()
        self.hosts: dict[str, HostView] = {}

    def __enter__(self) -> LiveView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def on_event(self, event: dict[str, Any]) -> None:
        """Takes one line of events.jsonl. Unknown events are left alone."""
        # Started by the first event only: until then Ansible may ask for a password.
        if self._live is None and self._console.is_terminal and event.get("event") == "play":
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        line = self._take(event)
        if line is not None:
            self._console.print(line, soft_wrap=True)
        if self._live is not None:
            self._live.update(self._table())

    def _take(self, event: dict[str, Any]) -> Text | None:
        """Updates the hosts; the line to print at once, if there is one."""
        name = event.get("host")
        if event.get("event") == "run_end":
            for host, status in (event.get("statuses") or {}).items():
                self._host(host).status = str(status)
            return None
        if not name:
            return None
        host = self._host(str(name))
        kind, component = event.get("event"), event.get("component")
        if event.get("phase"):
            host.phase = str(event["phase"])
        if kind == "plan":
            return self._planned(str(name), host, event)
        if kind == "host_start" and component:
            return self._begins(str(name), host, str(component))
        if kind == "host_result" and event.get("status") in ("failed", "unreachable"):
            host.status = str(event["status"])
            if component:
                host.components[str(component)] = "failed"
            if host.phase == "verify":
                return Text(f"{name}: not proven", "bold red")  # the checks follow at the end
            where = f" in {component}" if component else ""
            return Text.assemble(
                (f"{name} {host.status}{where}: ", "bold red"),
                f"{event.get('task')}\n  " + str(event.get("message", "")).replace("\n", "\n  "),
            )
        return None

    def _planned(self, name: str, host: HostView, event: dict[str, Any]) -> Text | None:
        components = [str(component) for component in event.get("components") or []]
        host.simulated = bool(event.get("simulated_gpu"))
        label = f"{name} (simulated GPU)" if host.simulated else name
        if event.get("phase") == "proof":
            for component in host.planned:
                host.components[component] = "failed" if component in components else "done"
            return None
        host.planned = components
        host.components = dict.fromkeys(components, "planned")
        if self._console.is_terminal:
            return None
        count = event.get("changes")
        if event.get("blockers"):
            return Text(f"{label}: blocked, see below")
        if not components:
            left = f"; {count} changes left out by tags" if count else ""
            return Text(f"{label}: nothing to change{left}")
        word = "change" if count == 1 else "changes"
        return Text(f"{label}: {count} {word} in {', '.join(components)}")

    def _begins(self, name: str, host: HostView, component: str) -> Text | None:
        if host.components.get(component) == "running":
            return None
        for other, state in host.components.items():
            if state == "running":
                host.components[other] = "done"
        host.components[component] = "running"
        host.since = self._clock()
        return None if self._console.is_terminal else Text(f"{name}: {component}")

    def _host(self, name: str) -> HostView:
        return self.hosts.setdefault(name, HostView(since=self._clock()))

    def _table(self) -> Table:
        shown = [c for c in COMPONENTS if any(c in host.components for host in self.hosts.values())]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("host", *shown, "now"):
            table.add_column(title, overflow="fold")
        room = max(3, self._console.height - MARGIN)
        ordered = sorted(self.hosts.items(), key=lambda pair: (pair[1].rank, pair[0]))
        for name, host in ordered[:room]:
            cells = [Text(name)]
            for component in shown:
                mark, style = MARKS.get(host.components.get(component, ""), ("", ""))
                if mark == "running":
                    mark = f"running {self._clock() - host.since:.0f} s"
                cells.append(Text(mark, style))
            cells.append(Text(host.status or host.phase, "bold red" if host.rank == 0 else ""))
            table.add_row(*cells)
        busy = sum(1 for host in self.hosts.values() if not host.status)
        more = f", {len(ordered) - room} more not shown" if len(ordered) > room else ""
        seconds = self._clock() - self._started
        table.caption = f"{busy} of {len(self.hosts)} hosts at work, {seconds:.0f} s{more}"
        table.caption_justify = "left"
        return table


def view(console: Console) -> LiveView:
    """The live view on this console: a table that moves on a terminal, plain lines elsewhere."""
    return LiveView(console)
