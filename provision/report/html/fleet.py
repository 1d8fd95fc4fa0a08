"""What a fleet's page adds to a lab's: drift by what differs, versions by who has them, filters.

With a few hosts the table of hosts shows all of it at a glance; with hundreds nobody finds the two
that have another driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from provision.report.html.views import SHARED_CHANGES, HostView
from provision.report.html.words import BAD
from provision.report.reading import clean

# From so many hosts on a report is a fleet's.
FLEET = 8
# The hosts of a version that its row names; the others are folded.
NAMED = 6
# A version is rare where at most one host in so many has it.
RARE = 20


@dataclass(frozen=True)
class Drift:
    """Differences of one component that the same hosts have."""

    name: str
    changes: list[dict[str, Any]]
    hosts: list[HostView]

    @property
    def is_short(self) -> bool:
        return len(self.changes) <= SHARED_CHANGES


@dataclass(frozen=True)
class Share:
    """The hosts that have one version of something.

    `others`: it is what most hosts have, and the hosts that have it are not listed. `like`: the
    row before it that lists the same hosts.
    """

    version: str
    hosts: list[HostView]
    share: float
    unknown: bool
    unlike_lock: int
    rare: bool
    others: bool
    like: str = ""


@dataclass(frozen=True)
class Versions:
    """All versions of one thing, the most frequent first."""

    title: str
    shares: list[Share]


@dataclass(frozen=True)
class Choice:
    """A value of a filter: how the rows name it, what a person reads, how many hosts have it."""

    key: str
    title: str
    count: int


def drift(hosts: Iterable[HostView]) -> list[Drift]:
    """What differs from the locks by the last look at each host, the most frequent first."""
    having: dict[tuple[str, ...], list[HostView]] = {}
    changes: dict[tuple[str, ...], dict[str, Any]] = {}
    for view in hosts:
        if view.status != "drift" and view.status not in BAD:
            continue
        for change in view.differences:
            key = tuple(change[part] for part in ("component", "item", "old", "new", "reason"))
            affected = having.setdefault(key, [])
            if not affected or affected[-1] is not view:
                affected.append(view)
            first = changes.setdefault(key, change)
            changes[key] = {**first, "reboot": first["reboot"] or change["reboot"]}
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = {}
    for key, views in having.items():
        groups.setdefault((key[0], tuple(view.anchor for view in views)), []).append(key)
    drifts = [
        Drift(name, [changes[key] for key in keys], having[keys[0]])
        for (name, _), keys in groups.items()
    ]
    return sorted(drifts, key=lambda entry: -len(entry.hosts))


def versions(hosts: list[HostView], columns: Mapping[str, str]) -> list[Versions]:
    """Who has which version of what; marks rare ones in the hosts' cells too."""
    tables = []
    for place, title in enumerate(columns.values()):
        values = [(view, view.cells[place]) for view in hosts]
        entry = _versions(title, [(view, cell.version, cell.state) for view, cell in values])
        rare = {share.version: len(share.hosts) for share in entry.shares if share.rare}
        for view, cell in values:
            if cell.version in rare and cell.state != "unknown":
                view.cells[place] = replace(cell, few=f"{rare[cell.version]} of {len(hosts)}")
        tables.append(entry)
    for title, attribute in (
        ("GPUs", "gpu_models"),
        ("Platform", "platform"),
        ("Kernel", "kernel"),
    ):
        facts = [(view, str(getattr(view, attribute))) for view in hosts]
        rows = [(view, value, "" if value else "unknown") for view, value in facts]
        tables.append(_versions(title, rows))
    reported = [entry for entry in tables if not all(share.unknown for share in entry.shares)]
    return _listed_once(reported)


def _listed_once(tables: list[Versions]) -> list[Versions]:
    """The same versions; a long list of hosts that an earlier row has only refers to that row."""
    listed: dict[tuple[str, ...], str] = {}
    once = []
    for entry in tables:
        shares = []
        for share in entry.shares:
            key = tuple(view.anchor for view in share.hosts)
            if share.others or len(key) <= NAMED:
                shares.append(share)
                continue
            shares.append(replace(share, like=listed.get(key, "")))
            unknown = f"whose {entry.title} is not known" if share.unknown else ""
            listed.setdefault(key, unknown or f"with {entry.title} {share.version}")
        once.append(replace(entry, shares=shares))
    return once


def _versions(title: str, rows: list[tuple[HostView, str, str]]) -> Versions:
    groups: dict[tuple[bool, str], list[tuple[HostView, str]]] = {}
    for view, value, state in rows:
        groups.setdefault((state == "unknown", value), []).append((view, state))
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1])))
    shares = []
    for place, ((unknown, value), having) in enumerate(ordered):
        shares.append(
            Share(
                "not known" if unknown else value,
                [view for view, _ in having],
                100 * len(having) / len(rows),
                unknown,
                sum(state == "differs" for _, state in having),
                rare=not unknown and place > 0 and len(having) * RARE <= len(rows),
                others=place == 0 and 2 * len(having) > len(rows),
            )
        )
    return Versions(title, shares)


def choices(hosts: list[HostView]) -> tuple[list[Choice], list[Choice]]:
    """(platforms, groups) to choose from; sets the keys by which the rows name them.

    A group that all hosts are in chooses nothing, and is left out.
    """
    platforms = Counter(view.platform or "unknown" for view in hosts)
    groups = Counter(group for view in hosts for group in view.groups)
    of_platform = {name: f"p{place}" for place, name in enumerate(sorted(platforms))}
    chosen = sorted(name for name, count in groups.items() if count < len(hosts))
    of_group = {name: f"g{place}" for place, name in enumerate(chosen)}
    for view in hosts:
        keys = [of_platform[view.platform or "unknown"]]
        keys += [of_group[group] for group in view.groups if group in of_group]
        view.keys = " ".join(keys)
    return (
        [Choice(key, name, platforms[name]) for name, key in of_platform.items()],
        [Choice(key, name, groups[name]) for name, key in of_group.items()],
    )


def platform_of(host: Mapping[str, Any]) -> str:
    """A host's platform in short, as filters name it: "debian 11 x86_64"; "" where unknown."""
    platform = host.get("platform") or {}
    words = (platform.get(key) for key in ("distribution", "release", "architecture"))
    return " ".join(clean(word) for word in words if word)


def gpu_models(host: Mapping[str, Any]) -> str:
    """ "8 x Tesla T4", as the driver lists them; "" where it was not asked."""
    devices = (host.get("found") or {}).get("gpu_devices")
    names = Counter(
        clean(device.get("name")) or "unnamed"
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    )
    return ", ".join(f"{count} x {name}" for name, count in sorted(names.items()))
