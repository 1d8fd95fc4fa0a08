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
    """A wish's value as a version; InputError where it is none."""
    try:
        return Version(text)
    except InvalidVersion:
        raise InputError(
            f"{key} is not a version",
            where="gpu_stack",
            got=repr(text),
            expected='"2.9" or "2.9.3"',
        ) from None


def is_of(wished: Version, text: str) -> bool:
    """Whether a version is of the wished one: 2.9.3 is of "2.9", only 2.9.1 is of "2.9.1"."""
    return Version(text).release[: len(wished.release)] == wished.release


def distance(left: Version, right: Version) -> int:
    """How far two versions are apart."""
    return abs(_number(right) - _number(left))


def _number(version: Version) -> int:
    """A version as a number whose differences are distances: 8.9 is nearer to 9.3 than 8.2."""
    return (version.major * 1000 + version.minor) * 1000 + version.micro


def nearest(wished: Version, versions: Iterable[str]) -> Sequence[str]:
    """At most three of the versions, nearest first; a release rather than its patches."""

    def nearness(text: str) -> tuple[int, int, str]:
        version = Version(text)
        same_length = len(version.release) == len(wished.release)
        return distance(wished, version), 0 if same_length else 1, text

    return sorted(dict.fromkeys(versions), key=nearness)[:3]


def newest_first(versions: Iterable[str]) -> list[str]:
    """The versions sorted, the newest first."""
    return sorted(versions, key=Version, reverse=True)


def span(values: Iterable[str]) -> str:
    """ "3.8", "3.8 and 3.9" or "3.8 to 3.11": the lowest and the highest of more than two."""
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


def shortened(names: Iterable[str]) -> str:
    """ "gpu01, gpu02, gpu03 and 9 more"."""
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")


def literal(wish: Wish) -> str:
    """A wish as YAML for an inventory: `gpu_stack: {tensorflow: "2.9"}`."""
    return f"gpu_stack: {flow(plain(wish.literal))}"


def flow(literal: Mapping[str, Any]) -> str:
    """A mapping as YAML on one line."""
    parts = []
    for key, value in literal.items():
        if isinstance(value, Mapping):
            parts.append(f"{key}: {flow(value)}")
        elif isinstance(value, str) and re.fullmatch(r"[a-z]+", value):
            parts.append(f"{key}: {value}")
        else:
            parts.append(f"{key}: {json.dumps(value)}")
    return "{" + ", ".join(parts) + "}"
