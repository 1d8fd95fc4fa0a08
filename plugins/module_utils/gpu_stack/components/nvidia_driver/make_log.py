"""What the compiler said where DKMS could not build the driver's module."""

from __future__ import annotations

import os
import re

from ...type_checking import TYPE_CHECKING
from . import driver_method

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

# "file:line:column: error: ..."; the compiler's own command lines hold the word too.
ERROR = re.compile(r":[0-9]+: (fatal )?error: ")
NAMES = ("nvidia", "nvidia-srv")
# Lines in a message, and characters of a line.
MANY = 3
LONG = 300


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:  # noqa: ARG001
    """The result of the module `driver_make_log`."""
    return {"changed": False, "words": words(**params)}


def words(version: str, module: str, kernels: Collection[str] = ()) -> str:
    """The compiler's errors of the latest build of this version that failed; "" without one.

    module: what DKMS calls the platform's own. kernels: those that lack the module; all when empty.
    """
    places = [f"{driver_method.DKMS}/{name}/{version}" for name in (*NAMES, module)]
    path = _latest(places, kernels)
    if path is None:
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    errors = [line for line in lines if ERROR.search(line)] or lines[-MANY:]
    excerpt = " / ".join(_short(line.strip()) for line in errors[:MANY])
    return f"The kernel module was not built: {excerpt} (whole output on the host: {path})."


def _latest(places: list[str], kernels: Collection[str]) -> str | None:
    """The newest log of a failed build, which DKMS leaves in `build`.

    The log of one that DKMS took for good lies below its kernel, and counts where that one lacks
    the module all the same.
    """
    paths = [os.path.join(place, "build", "make.log") for place in places]
    failed = [path for path in paths if os.path.isfile(path) and _is_of(path, kernels)]
    if not failed:
        folders = [os.path.join(place, kernel) for place in places for kernel in kernels]
        failed = [
            os.path.join(folder, "make.log")
            for start in folders
            for folder, _directories, files in os.walk(start)
            if "make.log" in files
        ]
    return max(sorted(failed), key=os.path.getmtime, default=None)


def _is_of(path: str, kernels: Collection[str]) -> bool:
    """Whether a log is of one of these kernels; one that names none may be."""
    with open(path, encoding="utf-8", errors="replace") as file:
        named = driver_method.kernel_of_log(file.read(4096))
    return named is None or not kernels or named in kernels


def _short(line: str) -> str:
    if len(line) <= LONG + 5:
        return line
    return line[: LONG - 3].rsplit(" ", 1)[0] + "..."
