"""The lock as data: its rows, its stacks, and what a row says of the hosts that it is for.

Per platform and wish, never per host.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from provision.errors import InputError
from provision.models import plain
from provision.resolve import Choice, Stack

FORMAT = 1


@dataclass(frozen=True)
class Lock:
    """A lock as plain data; `slim` is what hosts get."""

    slim: Mapping[str, Any]
    details: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """`sha256:...` of everything else in the lock."""
        return str(self.slim["digest"])

    @property
    def stacks(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Stack id -> component -> its part."""
        stacks: Mapping[str, Mapping[str, Mapping[str, Any]]] = self.slim["stacks"]
        return stacks

    @property
    def requirements(self) -> Mapping[str, str]:
        """Stack id -> text of its hash-locked requirements."""
        texts: Mapping[str, str] = self.details["requirements"]
        return texts


def row_of(choice: Choice) -> dict[str, Any]:
    """What a row of the lock says of the hosts that it is for."""
    row: dict[str, Any] = {
        "platform": choice.platform.platform.as_data(),
        "wish": plain(choice.wish.literal),
    }
    return row | ({"generations": list(choice.generations)} if choice.generations else {})


def names_of(row: Mapping[str, Any]) -> list[str]:
    """The stacks of a row: its own, and those beside it."""
    return [row["stack"], *row.get("beside", ())]


# What hosts get, and the names of GPUs that any number of the hosts may have.
_GIVEN = ("stack", "beside", "models")


def hosts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of its hosts, without what they get."""
    return {key: value for key, value in plain(row).items() if key not in _GIVEN}


def stacks_of(choice: Choice) -> list[Stack]:
    """The stack of a choice and those beside it, as `names_of` a row."""
    return [choice.stack, *choice.beside]


def locked_names(lock: Lock | None, choice: Choice) -> list[str]:
    """The names of the stacks that a lock has for just these hosts; none without a row.

    GPUs of another generation may have come since: then what these hosts had was for all. Another
    list of packages beside TensorFlow is no reason to move what else is locked.
    """
    wanted = row_of(choice)
    whole = {key: value for key, value in wanted.items() if key != "generations"}
    rows = lock.slim["rows"] if lock is not None else ()
    for told in (lambda hosts: hosts, _without_packages):
        for asked in (wanted, whole):
            for row in rows:
                if told(hosts_of(row)) == told(asked):
                    return names_of(row)
    return []


def _without_packages(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of its hosts but for the packages of their environments."""

    def rest(wish: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in wish.items() if key != "packages"}

    wish = rest(hosts["wish"])
    if "beside" in wish:
        wish["beside"] = [rest(one) for one in wish["beside"]]
    return {**hosts, "wish": wish}


def wheels(requirements: str) -> dict[str, str]:
    """Name -> version of a requirements text, sorted; InputError for anything unpinned."""
    found = {}
    for line in requirements.splitlines():
        if not line or line[0] in " #-":
            continue
        pinned = re.match(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if pinned is None:
            raise InputError("a requirement is not pinned", got=line)
        found[pinned.group(1).lower()] = pinned.group(2)
    return {name: found[name] for name in sorted(found)}


def digest_of(rows: Any, stacks: Any, details: Any) -> str:
    """SHA-256 of the canonical JSON of everything but format and digest."""
    text = json.dumps(
        {"rows": rows, "stacks": stacks, "details": details},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def names(of: Iterable[str]) -> str:
    """ "gpu01, gpu02, gpu03 and 9 more"."""
    every = list(of)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")
