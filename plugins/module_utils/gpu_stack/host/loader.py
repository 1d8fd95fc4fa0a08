"""Which file the dynamic loader opens for a soname.

TensorFlow opens CUDA by soname, so what counts is neither the package nor a directory but the
loader's own answer. `ldconfig -p` prints its cache in the order in which the loader searches it;
of several lines for one soname the first of the host's architecture wins.
"""

from __future__ import annotations

import struct

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

    from .context import Context

CACHE = "/etc/ld.so.cache"
PROGRAM = "/sbin/ldconfig"

# What `ldconfig -p` calls a library of the architecture, by `uname -m`.
FLAGS = {"x86_64": "x86-64", "aarch64": "AArch64", "ppc64le": "64bit"}


def parse(text: str, architecture: str = "x86_64") -> dict[str, str]:
    """{soname: path} from the output of `ldconfig -p`."""
    flag = FLAGS.get(architecture, architecture)
    libraries: dict[str, str] = {}
    for line in text.splitlines():
        left, arrow, path = line.strip().partition(" => ")
        name, bracket, flags = left.partition(" (")
        if not arrow or not bracket or not path:
            continue
        if flag not in [word.strip() for word in flags.rstrip(")").split(",")]:
            continue
        libraries.setdefault(name, path)
    return libraries


def cache(context: Context) -> bool:
    """True where the loader has a cache: it lists libraries, or its file exists."""
    return bool(context.loader) or (context.root == "/" and context.exists(CACHE))


def cut_short(head: bytes, size: int) -> bool:
    """True where an ELF file ends before its section headers, which linkers write last.

    `head` are its first 64 bytes (elf(5)): a little-endian 64-bit file has the offset of the
    section headers at 0x28, their size and number at 0x3a. Other files are not judged.
    """
    if len(head) < 64 or head[4:6] != b"\x02\x01":
        return False
    (offset,) = struct.unpack_from("<Q", head, 0x28)
    entry, number = struct.unpack_from("<HH", head, 0x3A)
    return bool(size < offset + entry * number)


def inspect(context: Context, path: str) -> dict[str, Any] | None:
    """{"path", "real", "size", "elf", "short"} of a library; None when `path` leads nowhere."""
    real = context.resolve(path)
    if real is None:
        return None
    info = context.stat(real)
    head = context.read_bytes(real, 64) or b""
    size = info.st_size if info is not None else 0
    return {
        "path": path,
        "real": real,
        "size": size,
        "elf": head[:4] == b"\x7fELF",
        "short": cut_short(head, size),
    }


def complaint(library: dict[str, Any] | None) -> str | None:
    """Why a library can't be loaded, as the text of a change's `from`; None if it looks whole."""
    if library is None:
        return "missing"
    if library["size"] == 0:
        return "empty"
    if not library["elf"]:
        return "damaged"
    if library.get("short"):
        return "cut short"
    return None


def outdated(
    context: Context,
    libraries: Mapping[str, Iterable[str]],
    directories: Iterable[str] = (),
) -> list[str]:
    """Sonames and directories for which the cache has to be rebuilt.

    `libraries`: {soname: the paths of which the loader has to take one}; none means that any path
    will do that leads to a file. A cache that is older than the files names some that are gone.
    `directories`: those that hold libraries have to be in the cache. An interrupted run leaves
    them out.
    """
    names = []
    for soname, paths in libraries.items():
        path = context.loader.get(soname)
        allowed = list(paths or ())
        if path is None or context.stat(path) is None or (allowed and path not in allowed):
            names.append(soname)
    filled = [
        directory.rstrip("/")
        for directory in directories
        if any(".so." in name for name in context.listdir(directory) if not name.startswith("."))
    ]
    answer = context.run([PROGRAM, "--print-cache"]).out if filled else ""
    return names + [directory for directory in filled if directory + "/" not in answer]
