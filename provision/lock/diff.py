"""What a new lock changes, for whom: the lines that `provision lock` prints.

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


@dataclass(frozen=True)
class Change:
    """One thing of a row's stack; `old` or `new` is empty where it came or went."""

    kind: str  # component, package, wheel, source, row
    name: str
    old: str
    new: str
    hosts: tuple[str, ...]
    platform: str


def difference(before: Lock, after: Lock, fleet: Fleet) -> list[Change]:
    """What changes for whom, in the lock's order."""
    old, new = _rows(before), _rows(after)
    found: list[Change] = []
    platforms = {row.id: row.platform.as_data() for row in load().platforms}
    known = {h: platforms[f.platform] for h, f in fleet.facts.items() if f.platform in platforms}
    for key in [*new, *(key for key in old if key not in new)]:
        row = json.loads(key)
        hosts = tuple(
            host
            for host, wish in fleet.hosts.items()
            if plain(wish.literal) == row["wish"]
            and known.get(host, row["platform"]) == row["platform"]
        )
        where = f"{row['platform']['distribution']} {row['platform']['release']}"
        if key not in old or key not in new:
            was, now = ", ".join(old.get(key, ())), ", ".join(new.get(key, ()))
            found.append(Change("row", json.dumps(row["wish"]), was, now, hosts, where))
            continue
        # The same wish has as many stacks.
        for one, other in zip(old[key], new[key], strict=True):
            for kind, name, a, b in _stack_changes(before, one, after, other):
                change = Change(kind, name, a, b, hosts, where)
                if change not in found:
                    found.append(change)
    return found


def _rows(lock: Lock) -> dict[str, list[str]]:
    """What a row is for, as JSON -> its stacks."""
    return {json.dumps(hosts_of(row), sort_keys=True): names_of(row) for row in lock.slim["rows"]}


def _stack_changes(
    before: Lock, was: str, after: Lock, now: str
) -> Iterable[tuple[str, str, str, str]]:
    one, two = before.stacks[was], after.stacks[now]
    for component in LOCKED:
        a, b = _summary(one.get(component)), _summary(two.get(component))
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
    """The version of a component; of one without a version, its values."""
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


def told(changes: Sequence[Change]) -> list[str]:
    """A line per change, the components first; the hosts stand where the stack changes."""
    lines: dict[str, None] = {}
    for change in changes:
        who = _hosts(change.hosts)
        if change.kind == "row":
            word = "new" if not change.old else "gone"
            lines[f"{change.platform}, gpu_stack {change.name}: {word} ({who})"] = None
            continue
        mark = "" if change.kind == "component" else f"  {change.kind} "
        if change.old and change.new:
            moved = f"{change.name} {change.old} -> {change.new}"
        else:
            moved = (
                f"+ {change.name} {change.new}" if change.new else f"- {change.name} {change.old}"
            )
        lines[f"{mark}{moved} ({change.platform}: {who})"] = None
    return list(lines)


def _hosts(hosts: Sequence[str]) -> str:
    if not hosts:
        return "no host any more"
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
