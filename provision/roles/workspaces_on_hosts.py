"""What hosts read of their workspaces, read here by the same functions: people, sizes, hashes."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from provision.collection import module_utils

_PACKAGE = "provision_component_gpu_workspace"


@functools.cache
def _module(name: str) -> ModuleType:
    """A module of the component, or of its hosts' program, without the package around it.

    That one is the whole look.
    """
    if _PACKAGE not in sys.modules:
        folder = module_utils() / "gpu_stack" / "components" / "gpu_workspace"
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


def people(value: object) -> list[dict[str, Any]]:
    """The list `gpu_workspaces` with its defaults. ValueError says what is wrong with it."""
    read: Callable[[object], list[dict[str, Any]]] = _module("program.people_list").checked
    return read(value)


def size(value: object) -> int | None:
    """Bytes of "16g", or None."""
    read: Callable[[object], int | None] = _module("program.traits").size
    return read(value)


def hashed(value: str) -> str | None:
    """The value where it is an allowed hash of a password, else None."""
    return value if _module("program.people_list").HASH.fullmatch(value) else None


def is_shared_place(path: str) -> bool:
    """Whether a directory holds more than homes on every host."""
    return path in _module("program.places").SHARED_PLACES


def locked(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an image that is built on a host takes from its stack."""
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = _module("stack_of_row").locked
    return read(row)
