"""What a new lock changes for which hosts: the lines that `provision lock` prints.

Pure: two locks and the hosts in, changes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provision.catalog import load
from provision.inventory import Fleet
from provision.lock.model import Lock, hosts_of, names_of, wheels
from provision.models import plain
from provision.registry import LOCKED
from provision.resolve.words import shortened


@dataclass(frozen=True)
class Change:
    """A change in a row's stack; `old` is empty for an addition, `new` for a removal."""

    kind: str  # component, package, wheel, source, row
    name: str
    old: str
    new: str
    hosts: tuple[str, ...]
    platform: str


def difference(before: Lock, after: Lock, fleet: Fleet) -> list[Change]:
    """The changes between two locks, in the lock's order."""
    old, new = _rows(before), _rows(after)
    changes: list[Change] = []
    platforms = {row.id: row.platform.as_data() for row in load().platforms}
    declared = {h: platforms[f.platform] for h, f in fleet.facts.items() if f.platform in platforms}
    for key in [*new, *(key for key in old if key not in new)]:
        row = json.loads(key)
        hosts = tuple(
            host
            for host, wish in fleet.hosts.items()
            if plain(wish.literal) == row["wish"]
            and declared.get(host, row["platform"]) == row["platform"]
        )
        platform = f"{row['platform']['distribution']} {row['platform']['release']}"
        if key not in old or key not in new:
            was, now = ", ".join(old.get(key, ())), ", ".join(new.get(key, ()))
            changes.append(Change("row", json.dumps(row["wish"]), was, now, hosts, platform))
            continue
        # The same wish has as many stacks.
        for was, now in zip(old[key], new[key], strict=True):
            for kind, name, a, b in _stack_changes(before, was, after, now):
                change = Change(kind, name, a, b, hosts, platform)
                if change not in changes:
                    changes.append(change)
    return changes


def _rows(lock: Lock) -> dict[str, list[str]]:
    """The hosts that a row is for, as JSON -> the names of its stacks."""
    return {json.dumps(hosts_of(row), sort_keys=True): names_of(row) for row in lock.slim["rows"]}


def _stack_changes(
    before: Lock, was: str, after: Lock, now: str
) -> Iterable[tuple[str, str, str, str]]:
    """(kind, name, old, new) of each difference between two stacks."""
    old, new = before.stacks[was], after.stacks[now]
    for component in LOCKED:
        a, b = _summary(old.get(component)), _summary(new.get(component))
        if a != b:
            yield "component", component, a, b
    a_packages, b_packages = before.details["packages"][was], after.details["packages"][now]
    yield from _moved(
        "package",
        {name: package["version"] for name, package in a_packages.items()},
        {name: package["version"] for name, package in b_packages.items()},
    )
    yield from _moved("wheel", wheels(before.requirements[was]), wheels(after.requirements[now]))
    yield from _moved(
        "source",
        {f"{s['url']} {s['suite']}": s["date"] for s in before.details["sources"][was]},
        {f"{s['url']} {s['suite']}": s["date"] for s in after.details["sources"][now]},
    )


def _summary(part: Mapping[str, Any] | None) -> str:
    """A component's version and its source; its values where it has no version."""
    if part is None:
        return ""
    if "version" not in part:
        return json.dumps(plain(part))
    extra = f" for CUDA {part['cuda']}" if "cuda" in part else ""
    extra += f" from {part['source']}" if "source" in part else ""
    extra += f" on Python {part['python']}" if "python" in part else ""
    return f"{part['version']}{extra}"


def _moved(
    kind: str, old: Mapping[str, str], new: Mapping[str, str]
) -> Iterable[tuple[str, str, str, str]]:
    for name in sorted({*old, *new}):
        a, b = old.get(name, ""), new.get(name, "")
        if a != b:
            yield kind, name, a, b


def lines(changes: Sequence[Change]) -> list[str]:
    """A line for each change, with the hosts that it is for."""
    texts: dict[str, None] = {}
    for change in changes:
        who = _hosts(change.hosts)
        if change.kind == "row":
            word = "new" if not change.old else "gone"
            texts[f"{change.platform}, gpu_stack {change.name}: {word} ({who})"] = None
            continue
        mark = "" if change.kind == "component" else f"  {change.kind} "
        if change.old and change.new:
            moved = f"{change.name} {change.old} -> {change.new}"
        else:
            moved = (
                f"+ {change.name} {change.new}" if change.new else f"- {change.name} {change.old}"
            )
        texts[f"{mark}{moved} ({change.platform}: {who})"] = None
    return list(texts)


def _hosts(hosts: Sequence[str]) -> str:
    return shortened(hosts) or "no host any more"
