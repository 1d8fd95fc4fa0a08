"""What files of a host tell of the door; the look imports it, so nothing heavy stands here."""

from __future__ import annotations

import re
import time

from . import paths

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from .files import Host

# Days before its end in which a certificate of the host's own authority is made anew.
EARLY = 30


def ends_soon(until: float | None, now: float | None = None) -> bool:
    """Has a certificate that ends at `until`, in seconds of Unix time, to be renewed?"""
    return (until or 0) < (time.time() if now is None else now) + EARLY * 86400


def server_of(host: Host, name: str) -> str | None:
    """The directory of the ACME server that certbot's certificate is of; None where it has none.

    `host` has `read`.
    """
    path = f"{paths.LETSENCRYPT}/renewal/{paths.lineage(name)}.conf"
    server = re.search(r"^server\s*=\s*(\S+)\s*$", host.read(path) or "", re.M)
    return server.group(1) if server else None


def nginx_runs(host: Host) -> bool:
    """Does nginx run, as its own file tells? `host` has `read` and `isdir`."""
    pid = (host.read(paths.NGINX_PID) or "").strip()
    return pid.isdigit() and host.isdir("/proc/" + pid)
