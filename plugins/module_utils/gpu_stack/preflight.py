"""Finds what would make a run fail or hurt somebody, before anything is changed.

A host gets all its reasons in one message, so that nobody repairs one and meets the next an hour
later. Each rule stands beside what it is about, with its words; here they are put in their order
and given what they judge. The cases come from public threads of people with GPU machines.
"""

from __future__ import annotations

from . import (
    apt_rules,
    bundle_rules,
    cache_rules,
    host_rules,
    receipt,
    registered_rules,
    removal,
    room,
    transaction,
)
from .change import blocker
from .host import people, processes, running, surroundings
from .host.context import SILENT
from .registered import COMPONENTS
from .rules import WORK, Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .host.context import Context
    from .shapes import Changes, Facts, Options

# A person reads these first, in this order; all others follow in the order of the registry.
ORDER = (
    "run-in-progress",
    "run-cut-off",
    "bundle",
    "cache",
    "avx",
    "disk",
    "boot-full",
    "driver-hangs",
    "gpu-processes",
    "maintenance-window",
    "logged-in",
    "logged-in-warning",
    "gpu-driver-window",
    "gpu-without-code",
    "venv-parents",
    "venv-in-use",
    "venv-kept",
    "gpu-translated",
    "secure-boot",
    "nouveau",
    "headers",
    "no-kernel",
    "kernel-compiler",
    "dpkg-broken",
    "dpkg-interrupted",
    "held",
    "unplanned-removal",
    "foreign-driver",
    "signed-by",
    "apt-sources",
    "apt-config",
    "runfile-driver",
    "packaged-driver",
    "driver-method",
    "unowned-cuda",
    "conda",
    "sshd-pam",
    "trusted-gpg",
    "system-tensorflow",
    "bashrc-user",
    "bashrc-left",
)
# Each has RULES; those that need more than the looks have FACTS.
_MODULES = (
    host_rules,
    apt_rules,
    bundle_rules,
    cache_rules,
    room,
    transaction,
    surroundings,
    *registered_rules.MODULES,
)


def _place(rule: Rule) -> int:
    return ORDER.index(rule.id) if rule.id in ORDER else len(ORDER)


RULES = tuple(sorted((rule for module in _MODULES for rule in module.RULES), key=_place))


def look(context: Context, run: str | None = None) -> dict[str, Any]:
    """Everything the rules need beside the components' own looks, in one pass.

    `run`: the id of the run that looks.
    """
    compute_apps = context.run(processes.COMPUTE_APPS)
    result = {
        "driver_hangs": compute_apps.err if compute_apps.rc == SILENT else None,
        "processes": processes.processes(context, compute_apps),
        "running": running.look(context, run),
        "users": people.users(context),
        "clock": people.clock(),
    }
    for module in _MODULES:
        for name, read in getattr(module, "FACTS", {}).items():
            result[name] = read(context)
    return result


def survey(context: Context, facts: Facts, result: dict[str, Any], run: str | None = None) -> None:
    """Looks at what could forbid a plan's changes: into `facts` under preflight and ledger."""
    changes = result["changes"]
    removed = result["absent"]
    preflight = facts["preflight"] = look(context, run)
    preflight["transaction"] = transaction.look(context, changes, removed)
    preflight["removal"] = removal.preflight_look(context, changes, removed)
    for component in COMPONENTS:
        if hasattr(component, "survey"):
            preflight.update(component.survey(context, facts, changes))
    facts["ledger"] = removal.ledger(context, context.row, removal.noted(context))


def _reasons(
    facts: Facts,
    changes: Changes,
    options: Options | None,
    row: Any,
    stops: bool,
) -> list[dict[str, Any]]:
    # Nothing is installed for a pending verification.
    touching = [entry for entry in changes if entry["component"] != receipt.NAME]
    components = {entry["component"] for entry in touching}
    reasons = []
    for rule in RULES:
        if rule.stops is not stops:
            continue
        if rule.component == WORK:
            relevant, named = changes, None
        elif rule.component is None or rule.component in components:
            relevant, named = touching, rule.component
        else:
            continue
        if not relevant:
            continue
        for message, hint in rule.check(facts, relevant, options or {}, row):
            reasons.append(blocker(rule.id, named, message, hint))
    return reasons


def blockers(
    facts: Facts, changes: Changes, options: Options | None, row: Any
) -> list[dict[str, Any]]:
    """Reasons not to begin with these (selected) changes, all of them at once. Pure."""
    return _reasons(facts, changes, options, row, True)


def warnings(
    facts: Facts, changes: Changes, options: Options | None, row: Any
) -> list[dict[str, Any]]:
    """What a person should know beforehand, and what does not stop the run. Pure."""
    return _reasons(facts, changes, options, row, False)


def judge(
    facts: Facts,
    selected: list[dict[str, Any]],
    options: Options,
    row: Any,
    removed: Sequence[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(blockers, notices) of selected changes; `removed` are the components to be removed. Pure."""
    # What is taken away needs no room, no headers and no key.
    building = removal.without(selected, removed)
    forbidden = blockers(facts, building, options, row)
    forbidden += removal.blockers(facts, selected, options, row, removed)
    notices = warnings(facts, building, options, row)
    return forbidden, notices + removal.notices(facts, facts.get("ledger") or {}, removed)
