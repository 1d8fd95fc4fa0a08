"""How fast the host reads a file that is not in its cache, as an input pipeline does.

A file without a name is written, which nobody can put something else in the place of and which is
gone however this ends; the kernel is told to forget it, and it is read back.
"""

from __future__ import annotations

import errno
import os
import time

from ..type_checking import TYPE_CHECKING
from . import bounded

if TYPE_CHECKING:
    from typing import Any, Callable

# On a disk, where programs of an acceptance have their folders too.
PLACE = "/var/tmp"  # noqa: S108 the file has no name there
MIB = 2**20
# Bytes. The most that is written; the least that is a measurement; the share of what is free.
LARGEST, LEAST, SHARE = 512 * MIB, 64 * MIB, 4
# Bytes after which the disk has to have what was written: a slow one then ends in time.
AT_ONCE = 32 * MIB
# Seconds: of writing, and of each reading, after which what was done until then counts; and of all.
LIMIT, PATIENCE = 10.0, 60.0
# Of two readings the faster counts: somebody else's program makes one slow, and none fast.
READINGS = 2
# These keep what they have in memory whatever they are told: nothing there is read from a disk.
IN_MEMORY = ("tmpfs", "ramfs", "zfs")
# What the cache is asked at so many places, and the share that tells that it forgot nothing.
PROBES, KEPT = 16, 0.5
# Bytes by which one MiB of the file is further in the noise than the one before. It is odd: two
# pages of 4096 bytes begin at the same place only after 4096 MiB.
STEP = 17
# No room, for root or for its quota; a place where nothing can be written.
FULL = (errno.ENOSPC, errno.EDQUOT)
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class UnfitError(Exception):
    """Nothing can be measured there; the message says why."""


def measure(
    place: str = "",
    patience: float = PATIENCE,
    reading: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """{place, kind, bytes, seconds, wrong, unfit, error, silent} of a folder; PLACE without one.

    unfit: why nothing can be measured there; error: what the disk said instead of doing it; silent:
    that it did nothing within `patience`. Of one that can be measured all three are nothing, and
    `bytes` were read in `seconds`, `wrong` MiB of them not as they were written.
    """
    # /var may be a link, of root's alone; a folder that an option names must be none.
    where = place or os.path.realpath(PLACE)
    nothing: dict[str, Any] = {
        "place": where, "kind": None, "bytes": 0, "seconds": 0.0, "wrong": 0,
        "unfit": None, "error": None, "silent": False,
    }  # fmt: skip
    try:
        answer: dict[str, Any] = bounded.call(lambda: (reading or read)(where), patience)
    except bounded.SilentError as error:
        return dict(nothing, error=str(error), silent=True)
    except bounded.EndedError as error:  # nothing of the disk's
        return dict(nothing, unfit=str(error))
    return dict(nothing, **answer)


def read(place: str) -> dict[str, Any]:
    """What `measure` says, without its time limit."""
    try:
        folder = _folder(place)
        try:
            kind = _kind(os.stat(folder).st_dev, place)
            handle = _file(folder)
        finally:
            os.close(folder)
        try:
            return dict(_measured(handle, place), kind=kind)
        finally:
            os.close(handle)
    except UnfitError as error:
        return {"unfit": str(error)}
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        if error.errno == errno.EIO:
            return {"error": reason}
        full = error.errno in FULL
        return {"unfit": "{0} {1}".format(place, "is full" if full else "can't be used: " + reason)}


def _folder(path: str) -> int:
    """A handle of a folder, no part of whose path is a link. Raises UnfitError, OSError."""
    if not path.startswith("/"):
        raise UnfitError("{0} is no absolute path".format(path))
    place = os.open("/", _FOLDER)
    done = ""
    for name in (part for part in path.split("/") if part):
        done += "/" + name
        try:
            inner = os.open(name, _FOLDER, dir_fd=place)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise UnfitError("there is no {0}".format(done)) from None
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnfitError("{0} is a link or no folder".format(done)) from None
            raise
        finally:
            os.close(place)
        place = inner
    return place


def _file(folder: int) -> int:
    """A new file in a folder that has no name there."""
    try:
        return os.open(".", _NEW | os.O_TMPFILE, 0o600, dir_fd=folder)
    except OSError as error:
        # A file system, or a kernel, without files that have no name: NFS, some FUSE.
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
    name = ".provision-accept-{0}".format(os.urandom(8).hex())
    handle = os.open(name, _NEW | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    os.unlink(name, dir_fd=folder)
    return handle


def _measured(handle: int, place: str) -> dict[str, Any]:
    info = os.fstatvfs(handle)
    # What a user may write: root's reserve is not ours.
    free = info.f_bavail * info.f_frsize
    size = min(LARGEST, free // SHARE // MIB * MIB)
    if size < LEAST:
        words = "{0} has {1} MiB free, and {2} would be needed"
        raise UnfitError(words.format(place, free // MIB, LEAST * SHARE // MIB))
    # Each MiB is another part of it, so that no two pages are alike.
    noise = memoryview(os.urandom(MIB + STEP * (LARGEST // MIB)))
    count = _written(handle, noise, size // MIB)
    best: tuple[float, int] | None = None
    wrong = 0
    for _reading in range(READINGS):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        if _cached(handle, count):
            raise UnfitError("{0} stays in the host's memory, whatever it is told".format(place))
        seconds, done, bad = _back(handle, noise, count)
        wrong = max(wrong, bad)
        if done and (best is None or done / seconds > best[1] / best[0]):
            best = (seconds, done)
    if best is None:
        raise UnfitError("not a MiB was read in {0:.0f} s".format(LIMIT))
    return {"bytes": best[1] * MIB, "seconds": best[0], "wrong": wrong}


def _part(noise: memoryview, number: int) -> memoryview:
    return noise[STEP * number : STEP * number + MIB]


def _written(handle: int, noise: memoryview, count: int) -> int:
    """How many MiB the disk has after LIMIT seconds, of `count`."""
    end = time.monotonic() + LIMIT
    for number in range(count):
        left = _part(noise, number)
        while left:
            left = left[os.write(handle, left) :]
        if (number + 1) % (AT_ONCE // MIB) == 0:
            os.fdatasync(handle)
            if time.monotonic() > end:
                count = number + 1
                break
    os.fsync(handle)
    return count


def _cached(handle: int, count: int) -> bool:
    """Whether the file is in memory still; False too where the kernel does not say it."""
    kept, page = 0, bytearray(1)
    for place in range(PROBES):
        try:
            kept += os.preadv(handle, [page], place * count // PROBES * MIB, os.RWF_NOWAIT)
        except OSError:  # it would have to be read; or this file system can't say
            continue
    return kept > KEPT * PROBES


def _back(handle: int, noise: memoryview, count: int) -> tuple[float, int, int]:
    """(seconds, MiB, how many of them are wrong) of a reading from the start."""
    end = time.monotonic() + LIMIT
    part = bytearray(MIB)
    seconds, wrong = 0.0, 0
    for number in range(count):
        began = time.monotonic()
        if began > end:
            return seconds, number, wrong
        size = os.preadv(handle, [part], number * MIB)
        while 0 < size < MIB:
            more = os.preadv(handle, [memoryview(part)[size:]], number * MIB + size)
            if not more:
                break
            size += more
        seconds += time.monotonic() - began
        wrong += size != MIB or part != _part(noise, number)
    return seconds, count, wrong


def _kind(device: int, place: str) -> str:
    """What the folder is on, which explains how fast it is: "nvme", "ssd", "nfs4".

    Raises UnfitError where that is memory.
    """
    number = "{0}:{1}".format(os.major(device), os.minor(device))
    system, source = _mounted(number)
    if system in IN_MEMORY:
        raise UnfitError("{0} is {1}, which keeps files in memory".format(place, system))
    if not os.path.exists("/sys/dev/block/" + number) and source.startswith("/dev/"):
        try:  # btrfs has numbers of its own
            device = os.stat(source).st_rdev
        except OSError:
            return system
        number = "{0}:{1}".format(os.major(device), os.minor(device))
    disks = sorted(_disks(os.path.realpath("/sys/dev/block/" + number)))
    return "+".join(disks) or system or "unknown"


def _mounted(number: str) -> tuple[str, str]:
    """(file system, source) of a device's first mount, by proc(5)'s mountinfo."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        before, _dash, after = line.partition(" - ")
        if before.split()[2] == number:
            return after.split()[0], after.split()[1]
    return "", ""


def _disks(folder: str) -> set[str]:
    """The kinds of disks below a block device of /sys: of a RAID or a volume those of its parts."""
    if not os.path.isdir(folder):
        return set()
    parts = os.path.join(folder, "slaves")
    names = os.listdir(parts) if os.path.isdir(parts) else []
    if names:
        inner = (_disks(os.path.realpath(os.path.join(parts, name))) for name in names)
        return set().union(*inner)
    if os.path.exists(os.path.join(folder, "partition")):
        folder = os.path.dirname(folder)
    name = os.path.basename(folder)
    if name.startswith("nvme"):
        return {"nvme"}
    # A virtual disk says of itself that it turns.
    if name.startswith(("vd", "xvd")):
        return {"virtual disk"}
    try:
        with open(os.path.join(folder, "queue", "rotational"), encoding="ascii") as stream:
            return {"hard disk" if stream.read().strip() == "1" else "ssd"}
    except OSError:
        return {name}
