"""Libraries as the loader sees them, and the packages that own them."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from typing import Any

from .system import last_line, read, run

# Asks the loader which file it took: dlinfo(RTLD_DI_LINKMAP). The file's name does not tell:
# libcupti.so.11.2 is the soname of a file called libcupti.so.2020.3.1.
LOADER = r"""
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
class LinkMap(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
entry = ctypes.POINTER(LinkMap)()
for name in (None, "libdl.so.2"):
    try:
        ask = ctypes.CDLL(name).dlinfo
    except (AttributeError, OSError):
        continue
    ask.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    if ask(library._handle, 2, ctypes.byref(entry)) == 0:
        # Flushed now: a cuDNN that lacks one of CUDA's libraries aborts when asked for its version.
        print("path", entry.contents.name.decode(), flush=True)
        break
if len(sys.argv) > 2:
    function = getattr(library, sys.argv[2])
    function.restype = ctypes.c_size_t
    print("answer", function())
"""


def loader_cache() -> dict[str, str]:
    """`ldconfig -p` as {soname: the first path}, for this machine's word size."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    paths: dict[str, str] = {}
    for line in run([program, "-p"], limit=0)["stdout"].splitlines():
        match = re.match(r"\s+(\S+) \((.*)\) => (\S+)", line)
        if match and ("x86-64" in match.group(2) or "AArch64" in match.group(2)):
            paths.setdefault(match.group(1), match.group(3))
    return paths


def listed(package: str) -> set[str]:
    """The files a Debian package owns; empty where it isn't installed."""
    lists = glob.glob(f"/var/lib/dpkg/info/{package}.list")
    lists += glob.glob(f"/var/lib/dpkg/info/{package}:*.list")
    return {line for path in lists for line in (read(path) or "").splitlines()}


def same_file(paths: set[str], path: str) -> bool:
    """Is `path` one of `paths`, on a system where /lib may be a link to /usr/lib?"""
    if path in paths or path.replace("/usr/lib/", "/lib/", 1) in paths:
        return True
    return "/usr" + path in paths


def owner(path: str, expected: str | None) -> str | None:
    """The package that owns `path`. Tries `expected` first, whose list is quick to read."""
    if expected and same_file(listed(expected), path):
        return expected
    answer = run(["dpkg-query", "-S", path])
    if answer["rc"] != 0:
        return None
    return str(answer["stdout"]).partition(": ")[0].split(",")[0].partition(":")[0]


def library(
    soname: str, expected: str | None, cache: dict[str, str], function: str | None = None
) -> dict[str, Any]:
    """What the loader does with a soname: file, error, cache entry, owner, `function`'s answer.

    `expected` is the package that should own the file.
    """
    command = [sys.executable, "-c", LOADER, soname, *([function] if function else [])]
    loaded = run(command)
    answers = dict(
        line.split(" ", 1) for line in loaded["stdout"].splitlines() if line.count(" ") >= 1
    )
    path = answers.get("path")
    real = os.path.realpath(path) if path else None
    cached = cache.get(soname)
    return {
        "loaded": path,
        "real": real,
        "error": None if loaded["rc"] == 0 else last_line(loaded["stderr"]) or str(loaded["rc"]),
        "cached": cached,
        "cached_real": os.path.realpath(cached) if cached else None,
        "owner": owner(real, expected) if real else None,
        "answer": answers.get("answer"),
    }


def packages(row: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Installed versions of the locked packages: {name: {"version", "status"}}."""
    names = set()
    for component in row.values():
        if isinstance(component, dict):
            for group in (component.get("packages") or {}).values():
                names.update(group)
    if not names:
        return {}
    shape = "${Package}\t${Version}\t${db:Status-Abbrev}\n"
    versions = {}
    answer = run(["dpkg-query", "-W", "-f", shape, *sorted(names)])
    for line in answer["stdout"].splitlines():
        name, version, status = [*line.split("\t"), "", ""][:3]
        # Of several architectures the installed one counts.
        if name not in versions or status.strip() == "ii":
            versions[name] = {"version": version, "status": status.strip()}
    return versions


def cudnn_headers(root: str) -> str | None:
    """The version in the headers behind the `current` link; None where they can't be read."""
    content = read(os.path.join(root, "current", "include", "cudnn_version.h"))
    if content is None:
        return None
    numbers = [
        re.search(rf"#define CUDNN_{part}\s+(\d+)", content)
        for part in ("MAJOR", "MINOR", "PATCHLEVEL")
    ]
    return ".".join(number.group(1) for number in numbers if number)
