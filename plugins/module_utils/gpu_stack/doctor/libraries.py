"""Finds libraries of another version than their names say, and archives that are web pages."""

from __future__ import annotations

import functools
import os
import re
import struct

from ..host import dpkg, regular, surroundings
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from ..host.context import Context

# Sonames whose major version TensorFlow chooses by.
LIBRARY = re.compile(
    r"^lib(cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|cudnn|nvrtc)"
    r"\.so\.(\d+)(\.\d+)*$"
)

DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/cuda/lib64",
    "/usr/local/lib",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/opt/nvidia/cudnn/*/lib64",
)

ARCHIVE = re.compile(r"^(cudnn|cuda|NVIDIA-Linux).*\.(tgz|tar\.gz|tar\.xz|deb|run)$")

DOWNLOADS = (
    *("/root", "/root/Downloads", "/tmp", "/var/tmp"),  # noqa: S108
    *("/opt", "/opt/nvidia/cudnn", "/usr/local/src"),
)
HOMES = "/home"
# Bytes of the names that one home, or the directory of homes, may answer with.
NAMES = 64 * 1024

# Packages of a GPU stack, whoever chose them.
STACK = re.compile(
    r"nvidia|cuda|cudnn|^libcu|^libnv|^libnpp|^libnccl|nsight|^glx-|^libgl|^libegl|^libxnvctrl"
)


def soname(context: Context, path: str) -> str | None:
    """The soname of an ELF library; None of other files (elf(5)).

    Little-endian 64 bit: the dynamic section has DT_SONAME (14), an offset into the table of
    strings at DT_STRTAB (5), whose address a loaded segment turns into a place in the file.
    """
    file = context.open(path)
    if file is None:
        return None
    with file:

        def read(at: int, size: int) -> bytes:
            file.seek(at)
            return file.read(size)

        try:
            return _soname(read)
        except (struct.error, StopIteration, KeyError, ValueError, OverflowError):
            return None


def _soname(read: Callable[[int, int], bytes]) -> str | None:
    head = read(0, 64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,) = struct.unpack_from("<Q", head, 0x20)
    size, number = struct.unpack_from("<HH", head, 0x36)
    # type, flags, place in the file, address, physical address, size in the file
    parts = [struct.unpack("<IIQQQQ", read(offset + size * i, 40)) for i in range(number)]
    dynamic = next(part for part in parts if part[0] == 2)
    entries = dict(struct.iter_unpack("<QQ", read(dynamic[2], dynamic[5] // 16 * 16)))
    table = entries[5]
    loaded = next(p for p in parts if p[0] == 1 and p[3] <= table < p[3] + p[5])
    name = read(loaded[2] + table - loaded[3] + entries[14], 256)
    return name.partition(b"\0")[0].decode("ascii", "replace")


def disguised(context: Context) -> list[dict[str, Any]]:
    """[{path, real}] of libraries whose name has another major version than the library.

    Files of packages don't count: Debian has such links.
    """
    libraries = []
    seen = set()
    for pattern in DIRECTORIES:
        for directory in context.glob(pattern):
            real = context.resolve(directory)
            if real in seen:
                continue
            seen.add(real)
            for name in context.listdir(directory):
                path = directory + "/" + name
                real_name = LIBRARY.match(name) and _other(context, path)
                if real_name and not _owned(context, path):
                    libraries.append({"path": path, "real": real_name})
    return libraries


def _other(context: Context, path: str) -> str | None:
    """The link's target, or the soname, if its version is not the name's; else None."""
    target = context.readlink(path)
    if target is None and _owned(context, path):
        return None
    name = target.rpartition("/")[2] if target is not None else soname(context, path)
    named, actual = LIBRARY.match(path.rpartition("/")[2]), LIBRARY.match(name or "")
    if named is None or actual is None or actual.group(1, 2) == named.group(1, 2):
        return None
    return name


def _owned(context: Context, path: str) -> bool:
    names = [name for name in context.packages if STACK.search(name)]
    return any(path in dpkg.file_list(context, name) for name in names)


def cudnn(context: Context) -> dict[str, str] | None:
    """Version and file of the cuDNN that the loader finds; None without one."""
    for name in sorted(context.loader):
        if re.match(r"libcudnn\.so\.\d+$", name):
            real = context.resolve(context.loader[name]) or ""
            match = re.search(r"libcudnn\.so\.(\d+\.\d+\.\d+)", real)
            if match is not None:
                return {"version": match.group(1), "path": context.loader[name]}
    return None


def pages(context: Context) -> list[str]:
    """Archives of NVIDIA's that begin like a web page.

    Each home is read in a process that is abandoned where its server does not answer.
    """
    paths, silent = _pages(context, DOWNLOADS), 0
    names = _apart(lambda: context.listdir(HOMES, surroundings.PEOPLE)) or []
    for home in ["{0}/{1}".format(HOMES, name) for name in names]:
        found = _apart(functools.partial(_pages, context, (home, home + "/Downloads")))
        paths += found or []
        silent += found is None
        if silent == surroundings.SILENT_HOMES:
            break
    return paths


def _pages(context: Context, directories: Sequence[str]) -> list[str]:
    paths = []
    for directory in directories:
        for name in context.listdir(directory) if context.isdir(directory) else []:
            if ARCHIVE.match(name):
                head = (context.read_bytes(directory + "/" + name, 512) or b"").lower()
                if b"<!doctype html" in head or b"<html" in head:
                    paths.append(directory + "/" + name)
    return paths


def _apart(read: Callable[[], list[str]]) -> list[str] | None:
    """The names that `read()` returns in a process of its own; None where it does not answer."""

    def work() -> bytes:
        return os.fsencode("\0".join(["read", *read()]))

    answer = regular.apart(work, NAMES, surroundings.PATIENCE)
    return os.fsdecode(answer).split("\0")[1:] if answer else None
