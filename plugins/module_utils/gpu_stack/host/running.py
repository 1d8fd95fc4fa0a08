"""Who is at work on this host now, as the lock of a run tells it.

Two runs on one host would install over each other. A run holds a lock for as long as it lives
(run_lock/hold.py, started by `gpu_hold`); the kernel releases it with its holder, so a lock that is
free proves that nobody is there, whatever the file says. Root alone can open it; one that others
can open, as an earlier version made it, means something only where a holder of a run has it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

TYPE_CHECKING = False  # `typing` is not loaded on hosts
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
    """What the lock says of another run that holds this host; None where none does.

    `run`: this run's own id; it does not stand in its own way.
    """
    stream = context.open(PATH)
    if stream is None:
        return None
    begun = time.monotonic()
    patience = PATIENCE if patience is None else patience
    with stream:
        while not _free(stream):
            found = _content(context.read(PATH))
            if run is not None and found.get("run") == run:
                return None
            if os.fstat(stream.fileno()).st_mode & 0o077 and not _is_holder(context, found):
                return None
            waited = time.monotonic() - begun
            if found.get("ended") or found.get("silent"):
                return found
            if waited >= (patience + doubt if found.get("quiet") else patience):
                return found
            time.sleep(0.05)
    return None


def _free(stream: BinaryIO) -> bool:
    """True when nobody holds the lock; it is not kept. Where it can't be told, nobody does."""
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    fcntl.flock(stream, fcntl.LOCK_UN)
    return True


def _is_holder(context: Context, found: dict[str, Any]) -> bool:
    """Whether a process of root's that holds hosts is the one that the file names."""
    pid = found.get("holder")
    said = "/proc/{0}/cmdline".format(pid)
    return context.is_roots(pid) and HOLDER in (context.read(said) or "")


def _content(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def who(found: dict[str, Any]) -> str:
    """ "alice on ctrl1 (pid 1234) since 2026-11-21 14:03 UTC"."""
    if not found.get("who"):
        return "somebody"
    return "{0} on {1} (pid {2}) since {3}".format(
        found["who"], found.get("host"), found.get("pid"), found.get("started")
    )
