"""The only plan there is: what to change on a host, in which order, and what forbids it.

Pure functions of the lock, the wish and what the look found. Most hosts are converged: what only
the others need is imported where it is needed.
"""

from __future__ import annotations

from . import receipt
from .change import blocker
from .components import (
    BESIDE,
    LOCKED,
    NAMES,
    NEEDS,
    REMOVED_BY_STATE,
    SPOKEN,
    planned_steps,
)
from .host import gpu_models, platform
from .registered import BY_NAME, COMPONENTS
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .shapes import Changes, Facts, Options


def _row(
    lock: Any,
    wish: dict[str, Any] | None,
    platform_found: dict[str, Any],
    gpus: Sequence[dict[str, Any]],
) -> dict[str, Any] | None:
    """The row of the lock for this platform, wish and GPUs; None without one.

    A row that names GPU generations is for hosts with just these, and comes before one for all.
    """
    default: dict[str, Any] | None = None
    for row in (lock or {}).get("rows") or []:
        if row["wish"] != (wish or {}):
            continue
        if not all(platform_found.get(key) == value for key, value in row["platform"].items()):
            continue
        if "generations" not in row:
            default = default or row
        elif row["generations"] == gpu_models.generations(gpus):
            return dict(row)
    return default


def choose(
    lock: Any,
    wish: dict[str, Any] | None,
    platform_found: dict[str, Any],
    gpus: Sequence[dict[str, Any]] = (),
) -> tuple[str | None, dict[str, Any] | None]:
    """(stack id, the stack's parts) of the lock for such a host; (None, None) without.

    Under `beside` the parts, of other stacks, of the component that a host can have several of.
    """
    row = _row(lock, wish, platform_found, gpus)
    if row is None:
        return None, None
    stack = lock["stacks"][row["stack"]]
    names = row.get("beside")
    if names:
        beside = [lock["stacks"][name][BESIDE] for name in names]
        stack = dict(stack, beside=beside)
    return row["stack"], stack


def _beside(lock: Any, wish: dict[str, Any] | None, facts: Facts) -> list[dict[str, Any]]:
    """[{stack, directory}] of what is wished for beside the current one of its kind."""
    row = _row(lock, wish, facts["platform"], facts["gpus"]) or {}
    return [
        {"stack": name, "directory": BY_NAME[BESIDE].directory(lock["stacks"][name][BESIDE])}
        for name in row.get("beside") or []
    ]


def to_remove(row: Any, options: Options | None) -> list[str]:
    """The components that are to be removed from the host (`cuda_state: absent`)."""
    if row is None:
        return []
    return [
        name
        for name in REMOVED_BY_STATE
        if (name in row or name not in LOCKED) and (options or {}).get(name + "_state") == "absent"
    ]


def tagged(name: str, only: Sequence[str] | None, skip: Sequence[str] | None) -> bool:
    """True when Ansible would run a task whose one tag is `name` under these tag lists."""
    only = list(only or []) or ["all"]
    skip = list(skip or [])
    if not any(tag in only for tag in ("all", "tagged", name)):
        return False
    return not any(tag in skip for tag in ("all", "tagged", name))


def differences(row: Any, facts: Facts, options: Options) -> Changes:
    """All changes of all components of the stack, in the order of application."""
    changes: Changes = []
    removed = to_remove(row, options)
    if removed:
        from . import removal
    for component in COMPONENTS:
        name = component.NAME
        if name in removed:
            changes.extend(removal.differ(name, facts["state"][name]["remains"]))
        elif name in row or name not in LOCKED:
            changes.extend(component.differ(row, facts["state"][name], options))
    return changes


def _without_followers(changes: Changes) -> Changes:
    """The changes without those that follow only from others which are not made."""
    for component in COMPONENTS:
        if hasattr(component, "following"):
            changes = component.following(changes)
    return changes


def receipt_changes(lock: Any, row: Any, options: Options, facts: Facts) -> Changes:
    return receipt.differ(
        lock.get("digest"),
        facts["receipt"],
        bool(facts.get("unfinished")),
        to_remove(row, options),
        facts.get("receipt_fault"),
    )


def merge_repairs(changes: Changes) -> dict[str, Any]:
    """{component: role variables} of the selected changes; lists are joined, without doubles."""
    repairs: dict[str, dict[str, Any]] = {}
    for entry in changes:
        for name, value in (entry["repair"] or {}).items():
            variables = repairs.setdefault(entry["component"], {})
            if isinstance(value, list):
                variables[name] = sorted(set(variables.get(name, []) + value))
            else:
                variables[name] = value
    return repairs


def _words(mapping: dict[str, Any]) -> str:
    words = []
    for key in sorted(mapping):
        value = mapping[key]
        words.append(
            "{0} ({1})".format(key, _words(value))
            if isinstance(value, dict)
            else "{0} {1}".format(key, value)
        )
    return ", ".join(words) or "nothing"


def no_row(lock: Any, wish: dict[str, Any] | None, facts: Facts) -> dict[str, Any]:
    """The blocker of a host that the lock says nothing about."""
    rows = (lock or {}).get("rows") or []
    by_gpus = any("generations" in row for row in rows)
    row_words = sorted(
        "{0} with {1}{2}".format(
            platform.words(row["platform"]),
            _words(row["wish"]),
            " on {0} GPUs".format(" and ".join(row["generations"])) if "generations" in row else "",
        )
        for row in rows
    )
    here = "{0} with {1}".format(platform.words(facts["platform"]), _words(wish or {}))
    if by_gpus:
        names = " and ".join(gpu_models.generations(facts["gpus"]))
        here += " on {0} GPUs".format(names) if names else " on no GPU that is known"
    message = "the lock has no row for {0}; it has: {1}".format(
        here, "; ".join(row_words) or "none"
    )
    hint = "run `provision lock` with this host's platform and wish in the inventory"
    return blocker("no-row", None, message, hint)


def contradictions(row: Any, options: Options) -> list[dict[str, Any]]:
    """Blockers of wishes that can't be had together, before anything is looked at. Pure."""
    blockers = []
    removed = to_remove(row, options)
    for name in NAMES:
        if name in removed or name not in row:
            continue
        lacking = [needed for needed in NEEDS.get(name, ()) if needed in removed]
        if lacking:
            message = "{0} is wished for, and does not work without {1}, set to absent".format(
                SPOKEN[name], " and ".join(SPOKEN[needed] for needed in lacking)
            )
            hint = "set {0}_state to absent as well, or {1} to present".format(
                name, " and ".join(needed + "_state" for needed in lacking)
            )
            blockers.append(blocker("needed-by-another", name, message, hint))
    return blockers


def plan(
    lock: Any,
    wish: dict[str, Any] | None,
    options: Options | None,
    facts: Facts,
    only: Sequence[str] | None = None,
    skip: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The only plan there is: what to change on this host, in order, and what forbids it.

    Pure: the same arguments give the same plan, whatever the order of their keys. Changes left
    out by tags stay in `changes` with `selected: False`, so that a report can name them.
    """
    options = options or {}
    stack, row = choose(lock, wish, facts["platform"], facts["gpus"])
    changes = differences(row, facts, options) if row is not None else []
    removed = to_remove(row, options)
    if row is not None:
        changes += receipt_changes(lock, row, options, facts)
    for entry in changes:
        entry["selected"] = tagged(entry["component"], only, skip)
    changes = _without_followers(changes)
    selected = [entry for entry in changes if entry["selected"]]
    # A pending verification is work for the run, though nothing is installed for it.
    names = [component.NAME for component in COMPONENTS] + [receipt.NAME]
    blockers = platform.not_as_declared(lock, options, facts)
    notices = _notices(row, removed, facts)
    if row is None:
        blockers.append(no_row(lock, wish, facts))
    elif removed:
        blockers += contradictions(row, options)
    if row is not None and selected:
        from . import preflight

        forbidden, more = preflight.judge(facts, selected, options, row, removed)
        blockers += forbidden
        notices += more
    touched = [name for name in names if _touched(selected, name)]
    left_out = [entry for entry in changes if not entry["selected"]]
    return {
        "stack": stack,
        "beside": _beside(lock, wish, facts),
        "platform": facts["platform"],
        "container": facts["container"],
        "simulated_gpu": facts["simulated_gpu"],
        "gpus": facts["gpus"],
        "state": facts["state"],
        "receipt": facts["receipt"],
        "absent": removed,
        "steps": planned_steps(touched, removed, options),
        "packages": facts.get("ledger") or {},  # whose they are, for the mark and the receipt
        "changes": changes,
        "components": touched,
        "not_selected": [name for name in names[:-1] if _touched(left_out, name)],
        "repairs": merge_repairs(selected),
        "blockers": blockers,
        "notices": notices,
        "reboot": _reboot(selected),
        "drain": _drain(facts),
    }


def _notices(row: Any, removed: Sequence[str], facts: Facts) -> list[dict[str, Any]]:
    """What a person should know of the host, whether or not anything is to be changed."""
    notices: list[dict[str, Any]] = []
    for component in COMPONENTS:
        present = row is not None and component.NAME in row and component.NAME not in removed
        if present and hasattr(component, "notices"):
            notices += component.notices(row, facts)
    return notices


def _reboot(selected: Changes) -> dict[str, Any]:
    reasons = [f"{entry['item']}: {entry['reason']}" for entry in selected if entry["reboot"]]
    return {"needed": bool(reasons), "reason": "; ".join(reasons)}


def _drain(facts: Facts) -> dict[str, Any]:
    """Whether the host is to be free of Slurm's jobs first, and taken back after the proof."""
    seen = (facts.get("preflight") or {}).get("slurm_drain") or {}
    return dict(seen.get("drain") or {"needed": False, "resume": False, "reason": ""})


def _touched(changes: Changes, name: str) -> bool:
    return any(entry["component"] == name for entry in changes)


def describe(changes: Changes) -> list[str]:
    """The plan as a diff shows it: one line per selected change, [before, after]."""
    before, after = [], []
    for entry in changes:
        if not entry["selected"]:
            continue
        name = "{0} {1}: ".format(entry["component"], entry["item"])
        before.append(name + str(entry["from"] if entry["from"] is not None else "absent"))
        after.append(name + "{0} ({1})".format(entry["to"], entry["reason"]))
    return ["\n".join(before) + "\n" if before else "", "\n".join(after) + "\n" if after else ""]


def finish(result: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The plan as a task's result: `changed` where check mode found work, and the diff.

    Where nothing will be touched, somebody else at work is good to know and in nobody's way. Of
    what was found only the versions travel: the rest is in `changes` where it matters, and Ansible
    handles every value of every host's answer several times.
    """
    before, after = describe(result["changes"])
    others = [
        entry for entry in result["blockers"] if check_mode and entry["id"] == "run-in-progress"
    ]
    return dict(
        result,
        state={name: {"version": entry["version"]} for name, entry in result["state"].items()},
        receipt=receipt.summary(result["receipt"]),
        blockers=[entry for entry in result["blockers"] if entry not in others],
        notices=others + result["notices"],
        changed=bool(check_mode and result["components"]),
        diff={"before": before, "after": after},
    )
