"""Which process of a daemon runs now, and whether that one still has to be restarted.

A daemon reads its configuration only when it starts. A pending restart is noted under /run with the
start of the daemon's process, so that whoever restarts the daemon settles it.
"""

from __future__ import annotations

from ...change import change
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...host.context import Context, Result
    from ...shapes import Changes, State

RUNTIME = "/usr/bin/nvidia-container-runtime"


def process(context: Context, pid: str | None, name: str) -> str | None:
    """Returns "PID START" of a process of this name, START in clock ticks; None without one."""
    pid = (pid or "").strip()
    stat = context.read(f"/proc/{pid}/stat") if pid.isdigit() and pid != "0" else None
    # The name stands in brackets and may hold blanks; the start is the 22nd field (proc(5)).
    if stat is None or f"({name})" not in stat:
        return None
    return f"{pid} {stat.rpartition(')')[2].split()[19]}"


def shown(context: Context, unit: str, name: str) -> str:
    """Value of a unit's property."""
    result = context.run(["systemctl", "show", unit, "--property", name, "--value"])
    return str(result.out).strip()


def daemon(context: Context, unit: str, name: str) -> str | None:
    """Returns "PID START" of the daemon that runs as this unit; None without one."""
    return process(context, shown(context, unit, "MainPID"), name)


def restart_due(context: Context, note: str, running: str | None) -> bool:
    """Whether `running`, "PID START" or None, is the process in the note."""
    return running is not None and (context.read(note) or "").strip() == running


def last_line(answer: Result) -> str:
    """Last line of a failed program's output; "" without output."""
    lines = [line for line in (answer.err or answer.out).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def cri_changes(
    name: str, state: State, written: tuple[str, str | None, str], restarted: tuple[str, str]
) -> Changes:
    """Changes to a daemon that makes pods: its configuration, and the restart that loads it.

    written: what is written, its old value and why. restarted: what is restarted, and why.
    """
    if not state["wanted"]:
        return []
    changes = []
    if _unwritten(state):
        item, old, reason = written
        changes.append(change(name, item, old, RUNTIME, reason))
    if restarts(state):
        item, reason = restarted
        changes.append(change(name, item, "started before it", "restarted", reason))
    return changes


class Daemon:
    """containerd or CRI-O as a unit: it loads a runtime only when it starts."""

    def __init__(self, title: str, program: str, unit: str, socket: str, note: str) -> None:
        """`note`: where a pending restart is noted."""
        self.title = title
        self.program = program
        self.unit = unit
        self.socket = socket
        self.note = note

    def process(self, context: Context) -> str | None:
        """Returns "PID START" of the daemon that runs as the unit; None without one."""
        return daemon(context, self.unit, self.program)

    def restart_due(self, context: Context) -> bool:
        """Whether the running daemon has to be restarted."""
        return restart_due(context, self.note, self.process(context))

    def finish(
        self, context: Context, state: State, losing: Callable[[Context], str | None]
    ) -> None:
        """Adds to what is known of the configuration whether it runs, and what a restart costs."""
        state["running"] = context.lstat(self.socket) is not None
        state["owed"] = context.exists(self.note) and self.restart_due(context)
        if restarts(state):
            state["loses"] = losing(context)

    def users_in_the_way(self, names: list[str]) -> list[list[str]]:
        """[[rule, message, hint]] where the container toolkit to be removed started containers."""
        if not names:
            return []
        started = "were started by the container toolkit, set to absent: "
        message = f"containers of {self.title}'s {started}"
        hint = "stop them when their users agree; without it nobody could"
        return [[f"{self.program}-containers", message + ", ".join(names), hint]]

    def restart_in_the_way(self, lost: str | None) -> list[list[str]]:
        """[[rule, message, hint]] where forgetting the runtime would lose containers."""
        if lost is None:
            return []
        message = f"{self.title} would be restarted to forget NVIDIA's runtime, and containers lost"
        hint = "stop them when their users agree, then run again"
        return [[f"{self.program}-containers", f"{message}: {lost}", hint]]


def not_asked(installed: bool, wanted: bool) -> dict[str, Any]:
    """A daemon's state before it is asked what it knows."""
    return {
        "installed": installed,
        "wanted": wanted,
        "fault": None,
        "runtime": None,
        "other": False,
        "default": None,
        "running": False,
        "owed": False,
        "loses": None,
    }


def _unwritten(state: State) -> bool:
    """Whether the runtime has to be written."""
    return state["fault"] is not None or state["runtime"] != RUNTIME or bool(state["other"])


def stale(state: State) -> bool:
    """Whether the configuration has to be written."""
    return _unwritten(state) or state.get("default") is not None


def restarts(state: State) -> bool:
    """Whether a run would restart the daemon."""
    return bool(state["wanted"] and ((stale(state) and state["running"]) or state["owed"]))
