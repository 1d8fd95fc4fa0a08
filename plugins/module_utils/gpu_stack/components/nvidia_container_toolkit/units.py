"""Which process of a daemon runs now, and whether that one still has to be restarted.

A daemon reads its configuration when it starts. That a running one has to start anew is noted
under /run with the start of its process, and is settled by whoever restarts it.
"""


def process(context, pid, name):
    """ "PID START" of a process of this name, START in the kernel's own ticks; None without one."""
    pid = (pid or "").strip()
    stat = context.read(f"/proc/{pid}/stat") if pid.isdigit() and pid != "0" else None
    # The name stands in brackets and may hold blanks; the start is the 22nd field (proc(5)).
    if stat is None or f"({name})" not in stat:
        return None
    return f"{pid} {stat.rpartition(')')[2].split()[19]}"


def shown(context, unit, name):
    """What systemd says of a property of a unit."""
    return context.run(["systemctl", "show", unit, "--property", name, "--value"]).out.strip()


def daemon(context, unit, name):
    """ "PID START" of the daemon that runs as this unit; None without one."""
    return process(context, shown(context, unit, "MainPID"), name)


def restart_due(context, note, running):
    """Is `running`, "PID START" or None, the process that the note names?"""
    return running is not None and (context.read(note) or "").strip() == running


def last_line(answer):
    """The last thing that a program said, where it failed; "" where it said nothing."""
    lines = [line for line in (answer.err or answer.out).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
