"""What slurmd calls, by the name that it calls it by."""

from __future__ import annotations

import os
import signal
import sys

from . import jobs_devices, node, words

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

USAGE = """\
gpu-slurm-health   whether this node's GPUs are well; drains it, or takes it back
gpu-slurm-prolog   before a job, by slurmd
gpu-slurm-epilog   after a job, by slurmd
"""
# In seconds, for all of it; each question has a limit of its own. slurmd ends a health check
# after 60, and the others after 90.
LIMIT = 55
# What a program that took longer drains by, so that the next health check takes the node back. What
# slurmd itself drains stays for an administrator.
LATE = {"gpu-slurm-prolog": words.PROLOG, "gpu-slurm-epilog": words.EPILOG}


class LateError(Exception):
    """The program has taken its time."""


def _late(_signal: int, _frame: Any) -> None:
    raise LateError


def main(name: str) -> int:
    """Does what the program's name says; its exit code, by which slurmd drains the node if not 0.

    A health check has none: slurmd does nothing with it.
    """
    settings = node.settings()
    if settings is None:
        sys.stderr.write("{0} is not here, or not root's alone\n".format(node.SETTINGS))
        return 1
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(LIMIT)
    try:
        if settings.get("closed"):
            jobs_devices.enter_the_hosts()
        return _do(name, settings)
    except LateError:
        return _overdue(name, settings)
    except node.SilentError as error:
        sys.stderr.write("Slurm does not answer: {0}\n".format(error))
        return 1
    except jobs_devices.MountsError as error:
        sys.stderr.write("{0}\n".format(error))
        return 1


def _overdue(name: str, settings: dict[str, Any]) -> int:
    why = "its questions took more than {0} s".format(LIMIT)
    sys.stderr.write(why + "\n")
    if name not in LATE:
        return 1
    try:
        node.drain(settings["node"], LATE[name], why)
    except node.SilentError as error:
        sys.stderr.write("Slurm does not answer: {0}\n".format(error))
        return 1
    return 1 if LATE[name] == words.PROLOG else 0


def _do(name: str, settings: dict[str, Any]) -> int:
    if name == "gpu-slurm-health":
        from . import health

        sys.stdout.write(health.check(settings) + "\n")
        return 0
    if name == "gpu-slurm-prolog":
        from . import job

        wrong = job.prolog(os.environ, settings)
        sys.stderr.write(wrong + "\n" if wrong else "")
        return 1 if wrong else 0
    if name == "gpu-slurm-epilog":
        from . import job

        # The node is drained by then, with the reason: another exit code would add nothing.
        wrong = job.epilog(os.environ, settings)
        sys.stderr.write(wrong + "\n" if wrong else "")
        return 0
    sys.stderr.write(USAGE)
    return 2
