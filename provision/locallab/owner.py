"""Identifies the process that a lab belongs to, so that labs of killed runs are found."""

from __future__ import annotations

import os
from pathlib import Path


def owner(pid: int | None = None) -> str:
    """`pid:start time:boot` of a process, since pids are reused."""
    number = pid or os.getpid()
    return f"{number}:{_start_time(number)}:{boot()}"


def is_alive(who: str) -> bool:
    """Does the process of an `owner()` label still run?"""
    parts = who.split(":")
    if len(parts) != 3 or not parts[0].isdigit() or parts[2] != boot():
        return False
    return _start_time(int(parts[0])) == parts[1] != ""


def _start_time(pid: int) -> str:
    """Field 22 of /proc/<pid>/stat (proc(5)); '' without such a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def boot() -> str:
    """The first characters of this boot's id; '' where the kernel does not say it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except OSError:
        return ""
