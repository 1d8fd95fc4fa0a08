"""What follows from a person's settings alone."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SIZE = re.compile(r"(\d+)([kmg])b?", re.I)
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(value: Any) -> int | None:
    """Bytes of "16g", or None."""
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match.group(1)) == 0:
        return None
    return int(match.group(1)) * UNITS[match.group(2).lower()]


def ports(person: dict[str, Any]) -> list[int]:
    """The ports of the host that a workspace takes."""
    return [person[key] for key in ("port", "ssh_port", "tensorboard_port") if key in person]


def memory(people: list[dict[str, Any]]) -> int:
    """Bytes that they may use all together."""
    return sum(size(person["memory"]) or 0 for person in people)


def parts(kind: str | None) -> set[str]:
    """What a kind consists of: jupyter, ssh."""
    return {"jupyter", "ssh"} if kind == "both" else {kind or "jupyter"}


def needs(person: dict[str, Any]) -> set[str]:
    """What the image must have for somebody."""
    more = {"tensorboard"} if "tensorboard_port" in person else set()
    return parts(person.get("kind")) | more


def numbers(user: str) -> tuple[int, int]:
    """(uid, gid) of "uid:gid"; without a gid it is the same number."""
    uid, _mark, gid = user.partition(":")
    return int(uid), int(gid or uid)
