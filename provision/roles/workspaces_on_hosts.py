"""What hosts read of their workspaces and models, read here by the same functions."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from provision.collection import module_utils

_PACKAGE = "provision_components"


@functools.cache
def _module(name: str, component: str = "gpu_workspace") -> ModuleType:
    """A module of a component, or of its hosts' program, without the packages around it.

    Those are the whole look.
    """
    folder = module_utils() / "gpu_stack" / "components"
    for package, place in (
        (_PACKAGE, folder),
        *((f"{_PACKAGE}.{part}", folder / part) for part in ("gpu_workspace", component)),
    ):
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = [str(place)]
    return importlib.import_module(f"{_PACKAGE}.{component}.{name}")


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


def servings(value: object) -> list[dict[str, Any]]:
    """The list `gpu_servings` with its defaults. ValueError says what is wrong with it."""
    read: Callable[[object], list[dict[str, Any]]] = _module("entries", "gpu_serving").checked
    return read(value)


def takers(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Models as those to whom GPUs are promised, beside the people."""
    read: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
    read = _module("program.people_list").takers_of
    return read(models)


def serving_clash(
    models: list[dict[str, Any]], persons: list[dict[str, Any]], values: Mapping[str, Any]
) -> str | None:
    """What models, workspaces and the front door of a host can't have together, or None."""
    try:
        _module("entries", "gpu_serving").refuse_clashes(models, persons, values)
    except ValueError as error:
        return str(error)
    return None


def image_fault(image: str) -> str | None:
    """What is wrong with the name of TensorFlow Serving's image, or None."""
    read: Callable[[str], str | None] = _module("entries", "gpu_serving").image_fault
    return read(image)
