"""The services of Slurm on this host: started, restarted, and asked how they are."""

from __future__ import annotations

import time

from ...host.context import run_program
from ...host.refusal import RefusalError
from . import records


def systemctl(*words: str) -> None:
    """RefusalError with the unit's own complaint where systemctl fails."""
    answer = run_program(["systemctl", *words], 120)
    if answer.rc:
        unit = words[-1].partition(".")[0]
        message = complaint(unit) or (answer.err or answer.out).strip()[-300:]
        raise RefusalError("systemctl {0}: {1}".format(" ".join(words), message))


def complaint(unit: str) -> str:
    """The last of a service's words that say why it ended; "" without any."""
    command = ["journalctl", "-u", unit, "-n", "80", "-o", "cat", "--no-pager"]
    for line in reversed(run_program(command, 30).out.splitlines()):
        if "fatal:" in line:
            message: str = line.partition("fatal:")[2].strip()
            return message
    return ""


def is_active(unit: str) -> bool:
    return bool(run_program(["systemctl", "is-active", "--quiet", unit], 30).rc == 0)


def start(unit: str, changed: bool) -> None:
    """Enabled and running; restarted where what it reads has changed."""
    systemctl("enable", unit)
    systemctl("restart" if changed else "start", unit)
    if changed:
        records.have_read(unit)


def answers(patience: float) -> bool:
    """Whether slurmctld answers within so many seconds."""
    until = time.time() + patience
    while True:
        message = run_program(["timeout", "5", "scontrol", "ping"], 10).out
        if " is UP" in message or " at UP" in message or "UP/" in message:
            return True
        if time.time() > until or not is_active("slurmctld"):
            return False
        time.sleep(0.2)
