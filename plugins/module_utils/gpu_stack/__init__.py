"""One look at a host and one plan for it.

A run, a check and a drift report must never disagree, so all three ask this package: it reads the
host through a `Context`, and `plan` is a pure function of the lock, the wish and what was found.
It is imported by the module, piped to the host's Python by the action plugin, and tested on
recorded trees; standard library only, Python 3.7 syntax, nothing of Ansible.
"""

from . import receipt
from .change import blocker
from .components import (
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
from .components.gpu_workspace import obstacles
from .components.nvidia_container_toolkit import cdi
from .host import gpu_models, platform
from .host.context import Context

# In the order in which they are applied: each one may need what stands before it.
COMPONENTS = [
    *(nvidia_driver, cuda, cudnn, gpu_env),
    *(nvidia_container_toolkit, tensorflow, gpu_workspace, gpu_front_door),
]


# Options that templating may hand over as text ("no" from -e), by what they are.
SWITCHES = (
    *("nvidia_driver_hold", "nvidia_driver_persistence", "nvidia_driver_reboot"),
    *("cuda_hold", "cuda_installer_keep", "cuda_keep_old", "gpu_env_ld_library_path"),
    *("nvidia_container_toolkit_hold", "tensorflow_keep_old"),
    *("gpu_front_door_redirect", "gpu_front_door_hsts", "gpu_front_door_acme_agree"),
)
NUMBERS = ("nvidia_driver_wait_for_gpu_processes", "gpu_front_door_port")


def typed(options):
    """The options with switches as bool and numbers as int."""
    found = dict(options or {})
    for name in SWITCHES:
        if isinstance(found.get(name), str):
            found[name] = found[name].strip().lower() in ("yes", "true", "on", "1", "y", "t")
    for name in NUMBERS:
        if isinstance(found.get(name), str):
            found[name] = int(found[name])
    return found


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


def look(lock=None, wish=None, options=None, deep=False, root="/", runner=None):
    """Everything the plan needs to know about the host; reads, and changes nothing."""
    context = Context(root=root, options=options, deep=deep, runner=runner)
    return _look(context, lock, wish)


def _look(context, lock, wish):
    context.platform = platform.look(context)
    context.container = platform.container(context)
    gpus = platform.gpus(context)
    _stack, context.row = choose(lock, wish, context.platform, gpus)
    states = {component.NAME: component.look(context) for component in COMPONENTS}
    gone = wished_away(context.row, context.options)
    if gone:
        from . import removal

        ledger = removal.ledger(context, context.row, removal.noted(context))
        for name in gone:
            states[name]["remains"] = removal.look(context, name, ledger.get(name))
    return {
        "platform": context.platform,
        "container": context.container,
        "simulated_gpu": platform.simulated_gpu(context),
        "gpus": gpus,
        "receipt": receipt.look(context),
        "receipt_fault": receipt.fault(context),
        "unfinished": receipt.unfinished(context),
        "state": states,
        "preflight": {},
    }


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
    for component in COMPONENTS:
        part = row.get(component.NAME)
        if component.NAME in gone:
            from . import removal

            remains = found["state"][component.NAME]["remains"]
            changes.extend(removal.differ(component.NAME, remains))
        elif component is gpu_workspace:
            # The inventory's alone: no lock has a part for it, but an image is built of the stack.
            here = component.told(options, row)
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


def _receipt_changes(lock, row, options, found):
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
        changes += _receipt_changes(lock, row, options, found)
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
        from . import removal

        blockers += removal.contradictions(row, options)
    if row is not None and selected:
        # A converged host, which is most of them, does not pay for reading its rules.
        from . import preflight, removal

        # What is taken away needs no room, no headers and no key.
        building = removal.without(selected, gone)
        blockers += preflight.blockers(found, building, options, row)
        blockers += removal.blockers(found, selected, options, row, gone)
        notices = preflight.warnings(found, building, options, row)
        notices += removal.notices(found, found.get("ledger") or {}, gone)
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


def examine(lock, wish, options, only, skip, deep=False, root="/", runner=None, run=None):
    """Look and plan; where something is to be done, look at what could forbid it as well.

    `run`: the id of the run that looks, whose own lock on the host is none in its way.
    """
    context = Context(root=root, options=options, deep=deep, runner=runner)
    found = _look(context, lock, wish)
    result = plan(lock, wish, options, found, only, skip)
    if result["components"]:
        from . import preflight, removal, transaction

        gone = wished_away(context.row, context.options)
        found["preflight"] = preflight.look(context, run)
        found["preflight"]["transaction"] = transaction.look(context, result["changes"], gone)
        found["preflight"]["removal"] = removal.preflight_look(context, result["changes"], gone)
        if tensorflow.NAME in result["components"]:
            from .components.tensorflow import venv_use

            found["preflight"]["venvs"] = venv_use.look(context, found["state"][tensorflow.NAME])
        if gpu_workspace.NAME in result["components"]:
            workspaces = obstacles.stands_in_the_way(context, result["changes"])
            found["preflight"]["workspaces"] = workspaces
        if gpu_front_door.NAME in result["components"] and options.get("gpu_front_door_name"):
            found["preflight"]["front_door"] = gpu_front_door.stands_in_the_way(context)
        found["ledger"] = removal.ledger(context, context.row, removal.noted(context))
        result = plan(lock, wish, options, found, only, skip)
    return result


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


def ask_doctor(parameters, root="/", runner=None):
    """What is wrong with the host, by the cases that are known; changes nothing.

    The doctor's files come with such a question alone: the ordinary look doesn't pay for them.
    """
    from . import doctor, preflight

    options = typed(parameters.get("options"))
    context = Context(root=root, options=options, runner=runner)
    found = _look(context, parameters.get("lock"), parameters.get("wish"))
    found["preflight"] = preflight.look(context)
    changes = []
    if context.row is not None:
        changes = differences(context.row, found, options)
        changes += _receipt_changes(parameters.get("lock"), context.row, options, found)
    return doctor.answer(parameters, found, context, changes)


def answer(parameters, check_mode=False):
    """What the task returns for its parameters, on the host that this runs on."""
    if parameters.get("doctor"):
        return ask_doctor(parameters)
    result = examine(
        parameters.get("lock"),
        parameters.get("wish"),
        typed(parameters.get("options")),
        parameters.get("only"),
        parameters.get("skip"),
        deep=bool(parameters.get("deep")),
        run=parameters.get("run"),
    )
    return finish(result, check_mode)
