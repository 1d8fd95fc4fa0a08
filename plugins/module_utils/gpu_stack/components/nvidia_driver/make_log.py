"""What the compiler said where DKMS could not build the driver's module."""

from __future__ import annotations

import os
import re

from . import driver_method

# "file:line:column: error: ..."; the compiler's own command lines hold the word too.
ERROR = re.compile(r":[0-9]+: (fatal )?error: ")
NAMES = ("nvidia", "nvidia-srv")
# Lines in a message, and characters of a line.
MANY = 3
LONG = 300


def words(version: str, module: str) -> str:
    """The compiler's errors of the latest build of this version; "" where there was none.

    module: what DKMS calls the platform's own.
    """
    path = _latest([f"{driver_method.DKMS}/{name}/{version}" for name in (*NAMES, module)])
    if path is None:
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    errors = [line for line in lines if ERROR.search(line)] or lines[-MANY:]
    said = " / ".join(_short(line.strip()) for line in errors[:MANY])
    return f"The kernel module was not built: {said} (whole output on the host: {path})."


def _latest(directories: list[str]) -> str | None:
    paths = [
        os.path.join(place, "make.log")
        for directory in directories
        for place, _directories, files in os.walk(directory)
        if "make.log" in files
    ]
    return max(sorted(paths), key=os.path.getmtime, default=None)


def _short(line: str) -> str:
    if len(line) <= LONG + 5:
        return line
    return line[: LONG - 3].rsplit(" ", 1)[0] + "..."
