"""Checks a lock's shape where it is read, so that no reader has to.

The digest proves that nobody edited a lock, not that this version of provision can read it: a lock
of another version would end in a KeyError in some later step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Faults = Iterator[str]
Check = Callable[[Any, str], Faults]


def faults(slim: Mapping[str, Any], details: Mapping[str, Any]) -> Faults:
    """The places in a lock whose shape is not that of `lock.make`."""
    yield from _fields(
        slim,
        "gpu_lock",
        rows=_list(_row),
        stacks=_mapping(_mapping(_is(dict))),
    )
    yield from _fields(
        details,
        "gpu_lock_details",
        packages=_mapping(_mapping(_package)),
        requirements=_mapping(_is(str)),
        reasons=_mapping(_mapping(_is(str))),
        sources=_mapping(_list(_source)),
    )


def missing_names(slim: Mapping[str, Any], details: Mapping[str, Any]) -> Faults:
    """The places of stacks and packages that are named but missing; for a lock without `faults`."""
    for number, row in enumerate(slim["rows"]):
        for name in (row["stack"], *row.get("beside", ())):
            if name not in slim["stacks"]:
                yield f"gpu_lock.rows.{number}: {name}"
    for name, stack in slim["stacks"].items():
        for part in ("packages", "requirements", "reasons", "sources"):
            if name not in details[part]:
                yield f"gpu_lock_details.{part}: {name}"
                return
        for component, part in stack.items():
            packages = part.get("packages", {})
            wrong = next(_packages(packages, f"gpu_lock.stacks.{name}.{component}.packages"), "")
            if wrong:
                yield wrong
                return
            for package in {word for group in packages.values() for word in group}:
                if package not in details["packages"][name]:
                    yield f"gpu_lock_details.packages.{name}.{package}"


def _row(row: Any, where: str) -> Faults:
    text = _is(str)
    yield from _fields(row, where, platform=_platform, wish=_is(dict), stack=text)
    if isinstance(row, dict):
        optional = {
            "beside": _list(text),
            "generations": _list(text),
            "models": _mapping(_list(text)),
        }
        for key in optional.keys() & row.keys():
            yield from optional[key](row[key], f"{where}.{key}")


def _platform(value: Any, where: str) -> Faults:
    text = _is(str)
    yield from _fields(value, where, distribution=text, release=text, architecture=text)


def _package(value: Any, where: str) -> Faults:
    text = _is(str)
    yield from _fields(value, where, version=text, sha256=text, size=_is(int), source=text)


def _packages(value: Any, where: str) -> Faults:
    yield from _mapping(_mapping(_is(str)))(value, where)


def _source(value: Any, where: str) -> Faults:
    text, texts = _is(str), _list(_is(str))
    yield from _fields(
        value,
        where,
        url=text,
        suite=text,
        components=texts,
        signed_by=texts,
        date=text,
        sha256=text,
    )


def _is(kind: type) -> Check:
    def check(value: Any, where: str) -> Faults:
        if not isinstance(value, kind):
            yield where

    return check


def _each(
    kind: type, pairs: Callable[[Any], Iterable[tuple[object, Any]]]
) -> Callable[[Check], Check]:
    def of_all(of: Check) -> Check:
        def check(value: Any, where: str) -> Faults:
            if not isinstance(value, kind):
                yield where
                return
            for key, inner in pairs(value):
                yield from of(inner, f"{where}.{key}")

        return check

    return of_all


_list = _each(list, enumerate)
_mapping = _each(dict, dict.items)


def _fields(value: Any, where: str, **checks: Check) -> Faults:
    if not isinstance(value, Mapping):
        yield where
        return
    for key, check in checks.items():
        if key in value:
            yield from check(value[key], f"{where}.{key}")
        else:
            yield f"{where}.{key}"
