"""Modes and owners of packages' files, by rule: dpkg records neither.

After `chmod a-x /usr/bin/nvcc` size, time and checksum are the same, but nobody can compile; who
can write a library runs code as root as soon as root's programs load it. The rules are Debian's
policy 10.9: root's, readable for all, writable for nobody else, and programs and directories
executable for all. They cost no call beyond the one lstat that each file gets.
"""

from __future__ import annotations

import stat
import struct

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from typing import Iterable, Iterator

    from .context import Context

# Where the rules hold. Daemons change what is theirs below /var.
PLACES = ("/usr/", "/lib", "/opt/", "/etc/")
# Files without a dot in their name lie there too, and are no programs.
NO_PROGRAMS = ("/include/", "/share/", "/etc/", "/lib/modules/", "/src/")
PROGRAM_DIRECTORIES = ("/bin/", "/sbin/", "/libexec/")
EVERYBODY = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
# Debian's policy 9.1.2 lets the group staff write below /usr/local.
STAFF = 50
# It makes the devices of a GPU for users.
SETUID = ("nvidia-modprobe",)
CLOSED_PROGRAM = ", not executable for all"
ELF_EXECUTABLE, ELF_SHARED, INTERPRETER = 2, 3, 3


def of_file(
    context: Context, path: str, info: os.stat_result, owner: int, since: float
) -> str | None:
    """What is wrong with the mode or owner of a package's file; None where nothing is.

    `since`: when the package was unpacked. A mode that is as old is the package's own, and is not
    judged by what only a rule of ours says.
    """
    if not path.startswith(PLACES):
        return None
    return _of_file(context, path, info, owner, since)


def _of_file(
    context: Context, path: str, info: os.stat_result, owner: int, since: float
) -> str | None:
    mode = info.st_mode
    if stat.S_ISLNK(mode):
        return None
    text = "mode {0:04o}".format(stat.S_IMODE(mode))
    if not mode & stat.S_IROTH:
        return text
    if info.st_uid != owner:
        return "owned by user {0}".format(info.st_uid)
    if info.st_ctime <= since:
        return None
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and info.st_gid != _group(context)):
        return text + ", writable by others"
    name = path.rsplit("/", 1)[-1]
    if mode & (stat.S_ISUID | stat.S_ISGID) and name not in SETUID:
        return text + ", runs with its owner's rights"
    if mode & EVERYBODY == EVERYBODY or not stat.S_ISREG(mode):
        return None
    if mode & EVERYBODY or (may_be_program(path, name) and is_program(context, path)):
        return text + CLOSED_PROGRAM
    return None


def owner_of_all(context: Context) -> int:
    """The user id that owns the system: root's, or that of the recorded tree's owner."""
    root = context.stat("/")
    return root.st_uid if root is not None else 0


def faults(context: Context, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """{path: (fault, the mode that it should have)} of paths that everybody must reach.

    Each is followed to its end: what is in a linked directory's place is the administrator's.
    """
    owner = owner_of_all(context)
    faults: dict[str, tuple[str, str]] = {}
    for path in paths:
        info = context.stat(path)
        if info is None:
            continue
        if stat.S_ISDIR(info.st_mode):
            fault = of_directory(context, info, owner)
        else:
            fault = _of_file(context, path, info, owner, 0)
        if fault is not None:
            faults[path] = (fault, wish(context, info, fault))
    return faults


def _group(context: Context) -> int:
    root = context.stat("/")
    return root.st_gid if root is not None else 0


def may_be_program(path: str, name: str) -> bool:
    """True where a program can be expected; most files of a stack are headers and libraries."""
    if any(part in path for part in PROGRAM_DIRECTORIES):
        return True
    return "." not in name and not any(part in path for part in NO_PROGRAMS)


def is_program(context: Context, path: str) -> bool:
    """True for a script, and for an ELF file that is started: it names an interpreter, or is fixed.

    elf(5), 64 bits, little-endian: e_type at 0x10, e_phoff at 0x20, e_phentsize and e_phnum at
    0x36; each program header begins with its type.
    """
    head = context.read_bytes(path, 4096) or b""
    if head.startswith(b"#!"):
        return True
    if len(head) < 64 or head[:4] != b"\x7fELF" or head[4:6] != b"\x02\x01":
        return False
    (kind,) = struct.unpack_from("<H", head, 0x10)
    if kind != ELF_SHARED:
        return bool(kind == ELF_EXECUTABLE)
    (offset,) = struct.unpack_from("<Q", head, 0x20)
    size, number = struct.unpack_from("<HH", head, 0x36)
    places = range(offset, offset + size * number, size) if size else ()
    return any(
        struct.unpack_from("<I", head, place)[0] == INTERPRETER
        for place in places
        if place + 4 <= len(head)
    )


def of_directory(context: Context, info: os.stat_result, owner: int) -> str | None:
    """The fault of a directory's mode or owner; None where there is none."""
    mode = info.st_mode
    if info.st_uid == owner and mode == 0o040755:
        return None
    if not stat.S_ISDIR(mode):
        return None
    if mode & 0o555 != 0o555:
        return "mode {0:04o}, closed".format(stat.S_IMODE(mode))
    if info.st_uid != owner:
        return "owned by user {0}".format(info.st_uid)
    return _writable(context, info)


def _writable(context: Context, info: os.stat_result) -> str | None:
    mode = info.st_mode
    strangers = mode & stat.S_IWGRP and info.st_gid not in (_group(context), STAFF)
    if strangers or (mode & stat.S_IWOTH and not mode & stat.S_ISVTX):
        return "mode {0:04o}, writable by others".format(stat.S_IMODE(mode))
    return None


def wish(context: Context, info: os.stat_result, fault: str = "") -> str:
    """The nearest mode that the rules allow to a file with this fault, as four octal digits."""
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        mode |= 0o755
        if info.st_gid not in (_group(context), STAFF):
            mode &= ~stat.S_IWGRP
        if not mode & stat.S_ISVTX:
            mode &= ~stat.S_IWOTH
        return "{0:04o}".format(mode)
    return "0755" if mode & EVERYBODY or fault.endswith(CLOSED_PROGRAM) else "0644"


def directories(listed: list[str]) -> Iterator[str]:
    """The directories of a package's file list that lead to its files, where the rules hold."""
    for index, path in enumerate(listed):
        after = listed[index + 1] if index + 1 < len(listed) else ""
        if after.startswith(path + "/") and (path + "/").startswith(PLACES):
            yield path
