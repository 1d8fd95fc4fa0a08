"""The lock as data: its rows, its stacks, and which hosts a row is for.

Per platform and wish, never per host.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.errors import InputError
from provision.models import plain
from provision.resolve import Choice, Stack

FORMAT = 1


@dataclass(frozen=True)
class Lock:
    """A lock as plain data: `slim` travels to hosts, `details` stays on the controller."""

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
    """The keys of the lock's row that say which hosts it is for: platform, wish, generations."""
    row: dict[str, Any] = {
        "platform": choice.platform.platform.as_data(),
        "wish": plain(choice.wish.literal),
    }
    return row | ({"generations": list(choice.generations)} if choice.generations else {})


def names_of(row: Mapping[str, Any]) -> list[str]:
    """The stacks of a row: its own, and those beside it."""
    return [row["stack"], *row.get("beside", ())]


# The keys of a row that don't say which hosts it is for; the hosts may have any of the models.
_NOT_OF_HOSTS = ("stack", "beside", "models")


def hosts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a row that say which hosts it is for, as `row_of`."""
    return {key: value for key, value in plain(row).items() if key not in _NOT_OF_HOSTS}


def stacks_of(choice: Choice) -> list[Stack]:
    """The stack of a choice and those beside it, in the order of `names_of`."""
    return [choice.stack, *choice.beside]


def locked_names(lock: Lock | None, choice: Choice) -> list[str]:
    """The names of the locked stacks for the choice's hosts; [] without a row.

    A row without generations is taken too, since other GPUs may have come after it was locked; and
    one with other packages beside TensorFlow, which are no reason to move the rest.
    """
    exact = row_of(choice)
    any_generation = {key: value for key, value in exact.items() if key != "generations"}
    rows = lock.slim["rows"] if lock is not None else ()
    for comparable in (lambda hosts: hosts, _without_packages):
        for hosts in (exact, any_generation):
            for row in rows:
                if comparable(hosts_of(row)) == comparable(hosts):
                    return names_of(row)
    return []


def _without_packages(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """`hosts_of` a row without the wish's `packages`."""

    def bare(wish: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in wish.items() if key != "packages"}

    wish = bare(hosts["wish"])
    if "beside" in wish:
        wish["beside"] = [bare(beside) for beside in wish["beside"]]
    return {**hosts, "wish": wish}


def wheels(requirements: str) -> dict[str, str]:
    """Name -> version of a requirements text, sorted; InputError for anything unpinned."""
    versions = {}
    for line in requirements.splitlines():
        if not line or line[0] in " #-":
            continue
        pinned = re.match(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if pinned is None:
            raise InputError("a requirement is not pinned", got=line)
        versions[pinned.group(1).lower()] = pinned.group(2)
    return {name: versions[name] for name in sorted(versions)}


def digest_of(rows: Any, stacks: Any, details: Any) -> str:
    """`sha256:...` of the canonical JSON of everything but format and digest."""
    text = json.dumps(
        {"rows": rows, "stacks": stacks, "details": details},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
