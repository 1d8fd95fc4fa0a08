"""Versions compared; and versions, lists and wishes in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.version import InvalidVersion, Version

from provision.errors import InputError
from provision.models import Wish, plain


def parse_version(text: str, key: str) -> Version:
    """The version that a word of a wish names; InputError where it is none."""
    try:
        return Version(text)
    except InvalidVersion:
        raise InputError(
            f"{key} is not a version",
            where="gpu_stack",
            got=repr(text),
            expected='"2.9" or "2.9.3"',
        ) from None


def is_of(wanted: Version, text: str) -> bool:
    """ "2.9" is every 2.9.x, "2.9.1" only itself."""
    return Version(text).release[: len(wanted.release)] == wanted.release


def distance(wanted: Version, other: Version) -> int:
    """How far a version is from the wanted one."""
    return abs(_number(other) - _number(wanted))


def _number(version: Version) -> int:
    """A version as a number, to tell which of two is the nearer: 8.9 is nearer to 9.3 than 8.2."""
    return (version.major * 1000 + version.minor) * 1000 + version.micro


def nearest(wanted: Version, known: Iterable[str]) -> Sequence[str]:
    """At most three known versions, closest first; a release rather than its patches."""

    def distance(text: str) -> tuple[int, int, str]:
        v = Version(text)
        return (
            abs(_number(v) - _number(wanted)),
            0 if len(v.release) == len(wanted.release) else 1,
            text,
        )

    return sorted(dict.fromkeys(known), key=distance)[:3]


def newest_first(versions: Iterable[str]) -> list[str]:
    """The versions sorted, the newest first."""
    return sorted(versions, key=Version, reverse=True)


def span(values: Iterable[str]) -> str:
    """The lowest and the highest of many, all of few."""
    ordered = sorted(set(values), key=Version)
    return f"{ordered[0]} to {ordered[-1]}" if len(ordered) > 2 else and_list(ordered)


def and_list(values: Sequence[str]) -> str:
    """ "470", "470 and 535", "470, 510 and 535"."""
    if len(values) < 2:
        return "".join(values)
    return f"{', '.join(values[:-1])} and {values[-1]}"


def unique(values: Iterable[Any]) -> list[Any]:
    """The values without repetitions, in their order."""
    return list(dict.fromkeys(values))


def names_of(hosts: Sequence[str]) -> str:
    """At most three hosts by name, and how many more."""
    shown = ", ".join(hosts[:3])
    return shown + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def literal(wish: Wish) -> str:
    """A wish as it stands in an inventory."""
    return f"gpu_stack: {flow(plain(wish.literal))}"


def flow(literal: Mapping[str, Any]) -> str:
    """A mapping as one would write it in YAML on one line."""
    parts = []
    for key, value in literal.items():
        if isinstance(value, Mapping):
            parts.append(f"{key}: {flow(value)}")
        elif isinstance(value, str) and re.fullmatch(r"[a-z]+", value):
            parts.append(f"{key}: {value}")
        else:
            parts.append(f"{key}: {json.dumps(value)}")
    return "{" + ", ".join(parts) + "}"
