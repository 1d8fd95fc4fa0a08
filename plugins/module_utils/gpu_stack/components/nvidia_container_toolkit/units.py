"""Which process of a daemon runs now, and whether that one still has to be restarted.

A daemon reads its configuration only when it starts. A pending restart is noted under /run with the
start of the daemon's process, so that whoever restarts the daemon settles it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from ...host.context import Context, Result


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
