"""The GPUs of a node that are not Slurm's: slurmd's mounts close their device files to all jobs.

slurmd's own programs see the GPUs as the host does, for nvidia-smi numbers those alone that it can
open.
"""

from __future__ import annotations

import ctypes
import os
import stat

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Iterable

SLURMD = "/run/slurmd.pid"
PROC = "/proc"
# The process that has the mounts of the host.
FIRST = 1
# linux/sched.h
CLONE_NEWNS = 0x20000


class MountsError(Exception):
    """The host's mounts can't be entered; the message says why."""


def opened(files: Iterable[str]) -> list[str]:
    """Those of these device files that jobs of the running slurmd can open; none where it rests.

    A device file that was removed and made anew loses its mount.
    """
    try:
        with open(SLURMD, encoding="ascii") as file:
            pid = int(file.read(16))
    except (OSError, ValueError):
        return []
    return [path for path in files if _is_device("{0}/{1}/root{2}".format(PROC, pid, path))]


def _is_device(path: str) -> bool:
    """Whether it is a device file; that of systemd's in its place has the number 0."""
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISCHR(seen.st_mode) and seen.st_rdev != 0


def enter_the_hosts() -> None:
    """Leaves slurmd's mounts for those of the host's first process. Raises MountsError."""
    try:
        _enter("{0}/self/ns/mnt".format(PROC), "{0}/{1}/ns/mnt".format(PROC, FIRST))
    except OSError as error:
        raise MountsError("the host's mounts can't be entered: {0}".format(error)) from error


def _enter(own: str, hosts: str) -> None:
    if os.readlink(own) == os.readlink(hosts):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(hosts, os.O_RDONLY)
    try:
        if libc.setns(handle, CLONE_NEWNS):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    finally:
        os.close(handle)
