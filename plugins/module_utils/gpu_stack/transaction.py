"""What apt would take away to install the exact versions of the lock.

An exact version can be in the way of somebody's package: one that needs another version, or one
that conflicts. apt then removes that package with no further question, and the plan would not say
so. Only apt can tell, so it is asked before anything is touched; where its lists do not know the
versions yet (a bare host), the roles ask again before they install.
"""

from __future__ import annotations

import re

from .host import dpkg
from .host.apt_commands import SIMULATE
from .host.apt_removal import REMOVED
from .registered import WITH_PACKAGES
from .rules import Rule, some_packages
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .host.context import Context
    from .shapes import Changes, Facts, Options, Row

# More of them are "and N more": a person reads the message.
MANY = 4


def _versions(context: Context, component: Any) -> dict[str, str]:
    """{package: version} that the role of one component installs, a kernel's own left out."""
    versions: dict[str, str] = component.packages(context.part(component.NAME), context)
    if not hasattr(component, "displaced"):
        return versions
    of_kernel = component.displaced.OF_KERNEL
    return {name: versions[name] for name in versions if not of_kernel.match(name)}


def locked(row: Row | None) -> set[str]:
    """The names of all packages that the lock has for a host."""
    return {
        name
        for component in WITH_PACKAGES
        for packages in (((row or {}).get(component.NAME) or {}).get("packages") or {}).values()
        for name in packages
    }


def look(context: Context, changes: Changes, removed: Sequence[str]) -> dict[str, Any]:
    """{"removed": [[package, version, [why]]], "held": [[package, version, new]]}.

    Of the selected changes' components, those in `removed` left out. Packages that the changes
    remove anyway are named to apt as such and are not in the answer.
    """
    names = {entry["component"] for entry in changes if entry["selected"]} - set(removed)
    versions = {component.NAME: _versions(context, component) for component in WITH_PACKAGES
                if component.NAME in names and context.part(component.NAME)}  # fmt: skip
    versions = {name: versions[name] for name in versions if _differs(context, versions[name])}
    if not versions:
        return {"removed": [], "held": []}
    leaving = {
        name: [
            entry["item"] for entry in changes
            if entry["selected"] and entry["to"] is None and entry["component"] == name
            and entry["item"] in context.packages
        ]
        for name in versions
    }  # fmt: skip
    together = {}
    for name in sorted(versions):
        together.update(versions[name])
    answers = [_ask(context, together, sorted(item for name in leaving for item in leaving[name]))]
    if answers[0] is None and len(versions) > 1:
        answers = [
            _ask(context, versions[name], sorted(leaving[name])) for name in sorted(versions)
        ]
    result: dict[str, list[Any]] = {"removed": [], "held": []}
    for answer in answers:
        for kind, entries in (answer or {}).items():
            result[kind] += [entry for entry in entries if entry not in result[kind]]
    return result


def _differs(context: Context, versions: dict[str, str]) -> bool:
    """True where apt would have to install something."""
    for name in versions:
        package = context.packages.get(name)
        if package is None or package["version"] != versions[name]:
            return True
    return False


def _ask(context: Context, versions: dict[str, str], leaving: list[str]) -> dict[str, Any] | None:
    """apt's answer for one transaction; None where it has none (a version it does not know)."""
    specs = ["{0}={1}".format(name, versions[name]) for name in sorted(versions)]
    answer = context.run([*SIMULATE, *specs, *[name + "-" for name in leaving]])
    if answer.rc != 0:
        return None
    removed = sorted(set(REMOVED.findall(answer.out)) - set(leaving))
    # What goes may need what goes with it.
    why = _whys(context, set(versions) | set(removed) | set(leaving)) if removed else {}
    held = [
        [name.split(":")[0], old, new]
        for name, old, new in re.findall(r"^Inst (\S+) \[(\S+)\] \((\S+)", answer.out, re.M)
        if name.split(":")[0] not in versions
        and context.packages.get(name.split(":")[0], {}).get("want") == "hold"
    ]
    return {
        "removed": [
            [name, context.packages.get(name, {}).get("version"), why.get(name, [])]
            for name in removed
        ],
        "held": held,
    }


def _whys(context: Context, changing: set[str]) -> dict[str, list[str]]:
    """{package: ["needs libcublas11", "conflicts with libcuda1"]} as far as dpkg knows."""
    reasons: dict[str, list[str]] = {}
    for word, field in (
        ("needs", r"(?:Pre-)?Depends"),
        ("conflicts with", r"(?:Conflicts|Breaks)"),
    ):
        for name, others in dpkg.needs(context, field).items():
            if others & changing:
                text = "{0} {1}".format(word, ", ".join(sorted(others & changing)))
                reasons.setdefault(name, []).append(text)
    return reasons


def unplanned_removals(
    facts: Facts,
    changes: Changes,
    _options: Options,
    _row: Row | None,
) -> list[tuple[str, str]]:
    """[(message, hint)] for what would go, or change, that is not in the plan. Pure."""
    transaction = facts["preflight"].get("transaction") or {}
    planned = {entry["item"] for entry in changes if entry["to"] is None}
    others = [entry for entry in transaction.get("removed") or [] if entry[0] not in planned]
    reasons: list[tuple[str, str]] = []
    for component in WITH_PACKAGES:
        if hasattr(component, "displaced"):
            its, why = component.displaced.unplanned(others, facts["preflight"])
            others = [entry for entry in others if entry not in its]
            reasons += why
    if others:
        message = "apt would remove packages for the lock's versions: " + some_packages(others)
        hint = "`apt-get remove {0}` if nobody needs them, or wish for a stack that they can live "
        hint += "with; nothing is removed for you"
        reasons.append((message, hint.format(" ".join(entry[0] for entry in others))))
    held = transaction.get("held") or []
    if held:
        words = ", ".join("{0} {1} to {2}".format(*entry) for entry in held[:MANY])
        message = "apt would change packages that somebody holds: " + words
        hint = "apt-mark unhold {0}, if the hold is not wanted any more"
        reasons.append((message, hint.format(" ".join(entry[0] for entry in held))))
    return reasons


RULES = (Rule("unplanned-removal", None, True, unplanned_removals),)
