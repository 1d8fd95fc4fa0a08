"""The services of Slurm on this host: started, restarted, and asked how they are."""

from __future__ import annotations

import time

from ...host.context import Context, run_program
from ...host.refusal import RefusalError

# Where each writes what it complains of; journald has the rest.
LOGS = {
    "slurmctld": "/var/log/slurm/slurmctld.log",
    "slurmd": "/var/log/slurm/slurmd.log",
    "slurmdbd": "/var/log/slurm/slurmdbd.log",
}


def systemctl(*words: str) -> None:
    """RefusalError with the unit's own complaint where systemctl fails."""
    answer = run_program(["systemctl", *words], 120)
    if answer.rc:
        unit = words[-1].partition(".")[0]
        told = complaint(unit) or (answer.err or answer.out).strip()[-300:]
        raise RefusalError("systemctl {0}: {1}".format(" ".join(words), told))


def complaint(unit: str) -> str:
    """The last line of a service's log that says why it ended; "" without one."""
    text = Context().read(LOGS.get(unit, "/nonexistent")) or ""
    for line in reversed(text.splitlines()[-60:]):
        if "fatal:" in line:
            return line.partition("fatal:")[2].strip()
    return ""


def is_active(unit: str) -> bool:
    return bool(run_program(["systemctl", "is-active", "--quiet", unit], 30).rc == 0)


def start(unit: str, changed: bool) -> None:
    """Enabled and running; restarted where what it reads has changed."""
    systemctl("enable", unit)
    systemctl("restart" if changed else "start", unit)


def answers(patience: float) -> bool:
    """Whether slurmctld answers within so many seconds."""
    until = time.time() + patience
    while True:
        told = run_program(["timeout", "5", "scontrol", "ping"], 10).out
        if " is UP" in told or " at UP" in told or "UP/" in told:
            return True
        if time.time() > until or not is_active("slurmctld"):
            return False
        time.sleep(0.2)
