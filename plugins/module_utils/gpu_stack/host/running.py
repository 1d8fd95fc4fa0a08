"""Which run holds this host now, by its lock.

Two runs on one host would install over each other. A run holds a lock for as long as it lives
(run_lock/hold.py, started by `gpu_hold`); the kernel releases it with its holder, so a free lock
proves that no run is at work, whatever the file says. Only root can open it; one that others can
open, as an earlier version made it, counts only if a run's holder has it.
"""

from __future__ import annotations

import fcntl
import os
import time

from ..type_checking import TYPE_CHECKING
from . import mapping

if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from .context import Context

PATH = "/var/lib/provision/run.lock"
# In the holder's argument list: run_lock/hold.py.
HOLDER = "holds this host"
# A run that has just ended, or was cut off, may need a moment to let go or to say so on a host
# under load; a run that is at work is waited for no longer.
PATIENCE = 3.0
# A holder that has not heard of its run for some seconds says that it is quiet, and after 20 that
# it is silent. Where the network was cut, a person runs again before that; so it is waited for.
DOUBT = 20.0


def look(
    context: Context, run: str | None = None, patience: float | None = None, doubt: float = DOUBT
) -> dict[str, Any] | None:
    """The content of the lock if another run holds this host, else None.

    `run`: this run's own id, whose lock does not count.
    """
    stream = context.open(PATH)
    if stream is None:
        return None
    begun = time.monotonic()
    patience = PATIENCE if patience is None else patience
    with stream:
        while not _free(stream):
            holder = mapping.of(context.read(PATH)) or {}
            if run is not None and holder.get("run") == run:
                return None
            if os.fstat(stream.fileno()).st_mode & 0o077 and not _is_holder(context, holder):
                return None
            waited = time.monotonic() - begun
            if holder.get("ended") or holder.get("silent"):
                return holder
            if waited >= (patience + doubt if holder.get("quiet") else patience):
                return holder
            time.sleep(0.05)
    return None


def _free(stream: BinaryIO) -> bool:
    """True when nobody holds the lock, or flock(2) can't tell; the lock is not kept."""
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    fcntl.flock(stream, fcntl.LOCK_UN)
    return True


def _is_holder(context: Context, holder: dict[str, Any]) -> bool:
    """Whether a process of root's that holds hosts is the one that the file names."""
    pid = holder.get("holder")
    path = "/proc/{0}/cmdline".format(pid)
    return context.is_roots(pid) and HOLDER in (context.read(path) or "")


def who(holder: dict[str, Any]) -> str:
    """ "alice on ctrl1 (pid 1234) since 2026-11-21 14:03 UTC"."""
    if not holder.get("who"):
        return "somebody"
    return "{0} on {1} (pid {2}) since {3}".format(
        holder["who"], holder.get("host"), holder.get("pid"), holder.get("started")
    )
