"""The only plan there is: what to change on a host, in which order, and what forbids it.

Pure functions of the lock, the wish and what the look found. Most hosts are converged: what only
the others need is imported where it is needed.
"""

from . import receipt
from .change import blocker
from .components import (
    NAMES,
    NEEDS,
    SPOKEN,
    cuda,
    cudnn,
    gpu_env,
    gpu_front_door,
    gpu_workspace,
    nvidia_container_toolkit,
    nvidia_driver,
    planned_steps,
    tensorflow,
)
from .components.gpu_workspace import wished as workspaces_wished
from .components.nvidia_container_toolkit import cdi
from .host import gpu_models, platform

# In the order in which they are applied: each one may need what stands before it.
COMPONENTS = [
    *(nvidia_driver, cuda, cudnn, gpu_env),
    *(nvidia_container_toolkit, tensorflow, gpu_workspace, gpu_front_door),
]


def _row(lock, wish, platform_found, gpus):
    """The row of the lock for this platform, wish and GPUs; None without one.

    A row that names GPU generations is for hosts with just these, and comes before one for all.
    """
    found = None
    for row in (lock or {}).get("rows") or []:
        if row["wish"] != (wish or {}):
            continue
        if not all(platform_found.get(key) == value for key, value in row["platform"].items()):
            continue
        if "generations" not in row:
            found = found or row
        elif row["generations"] == gpu_models.generations(gpus):
            return row
    return found


def choose(lock, wish, platform_found, gpus=()):
    """(stack id, the stack's parts) of the lock for such a host; (None, None) without.

    Under `beside` the part tensorflow of each stack whose environment is wished for too.
    """
    row = _row(lock, wish, platform_found, gpus)
    if row is None:
        return None, None
    stack = lock["stacks"][row["stack"]]
    names = row.get("beside")
    if names:
        beside = [lock["stacks"][name][tensorflow.NAME] for name in names]
        stack = dict(stack, beside=beside)
    return row["stack"], stack


def _beside(lock, wish, found):
    """[{stack, directory}] of the environments beside the current one."""
    row = _row(lock, wish, found["platform"], found["gpus"]) or {}
    return [
        {"stack": name, "directory": tensorflow.directory(lock["stacks"][name][tensorflow.NAME])}
        for name in row.get("beside") or []
    ]


def wished_away(row, options):
    """The components of the stack that are not to be on the host (`cuda_state: absent`)."""
    return [
        component.NAME
        for component in COMPONENTS
        if component.NAME in (row or {})
        and (options or {}).get(component.NAME + "_state") == "absent"
    ]


def tagged(name, only, skip):
    """True when Ansible would run a task whose one tag is `name` under these tag lists."""
    only = list(only or []) or ["all"]
    skip = list(skip or [])
    if not any(tag in only for tag in ("all", "tagged", name)):
        return False
    return not any(tag in skip for tag in ("all", "tagged", name))


def differences(row, found, options):
    """All changes of all components of the stack, in the order of application."""
    changes = []
    gone = wished_away(row, options)
    if gone:
        from . import removal
    for component in COMPONENTS:
        part = row.get(component.NAME)
        if component.NAME in gone:
            remains = found["state"][component.NAME]["remains"]
            changes.extend(removal.differ(component.NAME, remains))
        elif component is gpu_workspace:
            # The inventory's alone: no lock has a part for it, but an image is built of the stack.
            here = workspaces_wished.with_image(options, row)
            changes.extend(component.differ(found["state"][component.NAME], here))
        elif component is gpu_front_door:
            changes.extend(component.differ(found["state"][component.NAME], options))
        elif part is not None:
            changes.extend(component.differ(part, found["state"][component.NAME], options))
            if component is nvidia_driver and found["preflight"].get("transaction"):
                from . import transaction

                changes.extend(transaction.differ(found, options))
    for part in () if tensorflow.NAME in gone else row.get("beside") or []:
        seen = found["state"][tensorflow.NAME]["beside"][tensorflow.directory(part)]
        changes.extend(tensorflow.differ_beside(part, seen, options))
    return changes


def receipt_changes(lock, row, options, found):
    return receipt.differ(
        lock.get("digest"),
        found["receipt"],
        found.get("unfinished"),
        wished_away(row, options),
        found.get("receipt_fault"),
    )


def merge_repairs(changes):
    """{component: role variables} of the selected changes; lists are joined, without doubles."""
    repairs = {}
    for one in changes:
        for name, value in (one["repair"] or {}).items():
            variables = repairs.setdefault(one["component"], {})
            if isinstance(value, list):
                variables[name] = sorted(set(variables.get(name, []) + value))
            else:
                variables[name] = value
    return repairs


def _words(mapping):
    words = []
    for key in sorted(mapping):
        value = mapping[key]
        words.append(
            "{0} ({1})".format(key, _words(value))
            if isinstance(value, dict)
            else "{0} {1}".format(key, value)
        )
    return ", ".join(words) or "nothing"


def no_row(lock, wish, found):
    """The blocker of a host that the lock says nothing about."""
    rows = (lock or {}).get("rows") or []
    by_gpus = any("generations" in row for row in rows)
    known = sorted(
        "{0} with {1}{2}".format(
            platform.words(row["platform"]),
            _words(row["wish"]),
            " on {0} GPUs".format(" and ".join(row["generations"])) if "generations" in row else "",
        )
        for row in rows
    )
    here = "{0} with {1}".format(platform.words(found["platform"]), _words(wish or {}))
    if by_gpus:
        names = " and ".join(gpu_models.generations(found["gpus"]))
        here += " on {0} GPUs".format(names) if names else " on no GPU that is known"
    message = "the lock has no row for {0}; it has: {1}".format(here, "; ".join(known) or "none")
    hint = "run `provision lock` with this host's platform and wish in the inventory"
    return blocker("no-row", None, message, hint)


def contradictions(row, options):
    """Blockers of wishes that can't be had together, before anything is looked at. Pure."""
    found = []
    gone = [name for name in NAMES if name in row and options.get(name + "_state") == "absent"]
    for name in NAMES:
        if name in gone or name not in row:
            continue
        lacking = [one for one in NEEDS.get(name, ()) if one in gone]
        if lacking:
            message = "{0} is wished for, and does not work without {1}, wished away".format(
                SPOKEN[name], " and ".join(SPOKEN[one] for one in lacking)
            )
            hint = "set {0}_state to absent as well, or {1} to present".format(
                name, " and ".join(one + "_state" for one in lacking)
            )
            found.append(blocker("needed-by-another", name, message, hint))
    return found


def plan(lock, wish, options, found, only=None, skip=None):
    """The only plan there is: what to change on this host, in order, and what forbids it.

    Pure: the same arguments give the same plan, whatever the order of their keys. Changes left
    out by tags stay in `changes` with `selected: False`, so that a report can name them.
    """
    options = options or {}
    stack, row = choose(lock, wish, found["platform"], found["gpus"])
    changes = differences(row, found, options) if row is not None else []
    gone = wished_away(row, options)
    if row is not None:
        changes += receipt_changes(lock, row, options, found)
    for one in changes:
        one["selected"] = tagged(one["component"], only, skip)
    changes = cdi.following(changes)
    selected = [one for one in changes if one["selected"]]
    # A proof that is owed is work for the run, though nothing is installed for it.
    names = [component.NAME for component in COMPONENTS] + [receipt.NAME]
    blockers, notices = platform.not_as_declared(lock, options, found), []
    if row is None:
        blockers.append(no_row(lock, wish, found))
    elif gone:
        blockers += contradictions(row, options)
    if row is not None and selected:
        from . import preflight

        forbidden, notices = preflight.judge(found, selected, options, row, gone)
        blockers += forbidden
    reboots = [one for one in selected if one["reboot"]]
    touched = [n for n in names if _touched(selected, n)]
    return {
        "stack": stack,
        "beside": _beside(lock, wish, found),
        "platform": found["platform"],
        "container": found["container"],
        "simulated_gpu": found["simulated_gpu"],
        "gpus": found["gpus"],
        "state": found["state"],
        "receipt": found["receipt"],
        "absent": gone,
        "steps": planned_steps(touched, gone, options),
        # Whose the packages are: for the mark of the run and the receipt.
        "packages": found.get("ledger") or {},
        "changes": changes,
        "components": touched,
        "not_selected": [
            n
            for n in names
            if any(one["component"] == n and not one["selected"] for one in changes)
            and n != receipt.NAME
        ],
        "repairs": merge_repairs(selected),
        "blockers": blockers,
        "notices": notices,
        "reboot": {
            "needed": bool(reboots),
            "reason": "; ".join(one["item"] + ": " + one["reason"] for one in reboots),
        },
    }


def _touched(changes, name):
    return any(one["component"] == name for one in changes)


def describe(changes):
    """The plan as a diff shows it: one line per selected change, [before, after]."""
    before, after = [], []
    for one in changes:
        if not one["selected"]:
            continue
        name = "{0} {1}: ".format(one["component"], one["item"])
        before.append(name + str(one["from"] if one["from"] is not None else "absent"))
        after.append(name + "{0} ({1})".format(one["to"], one["reason"]))
    return ["\n".join(before) + "\n" if before else "", "\n".join(after) + "\n" if after else ""]


def finish(result, check_mode):
    """The plan as a task's result: `changed` where check mode found work, and the diff.

    Where nothing will be touched, somebody else at work is good to know and in nobody's way. Of
    what was found only the versions travel: the rest is in `changes` where it matters, and Ansible
    handles every value of every host's answer several times.
    """
    before, after = describe(result["changes"])
    others = [one for one in result["blockers"] if check_mode and one["id"] == "run-in-progress"]
    return dict(
        result,
        state={name: {"version": one["version"]} for name, one in result["state"].items()},
        receipt=receipt.told(result["receipt"]),
        blockers=[one for one in result["blockers"] if one not in others],
        notices=others + result["notices"],
        changed=bool(check_mode and result["components"]),
        diff={"before": before, "after": after},
    )
