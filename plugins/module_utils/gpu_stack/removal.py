"""Components set to absent: what of theirs is on the host, and what forbids taking it.

`<component>_state: absent` removes what this program put on a host, and nothing else. dpkg does not
know who asked for a package, so a ledger in the receipt tells: the packages that a run of ours
installed, and those that were there before the first one, which are its owner's and stay. Files and
trees are known by their names and marks.
"""

from __future__ import annotations

from . import receipt
from .change import blocker, change
from .components import SPOKEN
from .host import apt_commands, apt_removal, code_users, dpkg, mapping, owned_files, processes
from .registered import WITH_PACKAGES
from .registered_removals import MODULES
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence

    from .host.context import Context
    from .shapes import Changes, Facts, Options


def files(name: str, part: str = "") -> list[dict[str, str]]:
    """Rows, for `owned_files.paths`, of a component's files; none where it has none.

    part: a name in the component's PARTS, for what is taken away while the component stays.
    """
    if part:
        return list(MODULES[name].PARTS[part])
    return list(getattr(MODULES.get(name), "FILES", ()))


def without(changes: Changes, removed: Sequence[str]) -> list[dict[str, Any]]:
    """The changes as preflight's rules see them: a removal is work, and nothing is installed."""
    return [
        dict(entry, component=receipt.NAME) if entry["component"] in removed else entry
        for entry in changes
    ]


# packages: whose they are


def ledger(context: Context, row: Any, record: dict[str, Any] | None) -> dict[str, Any]:
    """{component: {"ours": [names], "theirs": {name: version}}} of the components with packages.

    `record`: the receipt, or the mark of an unfinished run. Whose a package is, is decided before
    the first run that installs it, and kept until the component is taken away.
    """
    recorded = (record or {}).get("packages") or {}
    result = {}
    for component in WITH_PACKAGES:
        name = component.NAME
        part = (row or {}).get(name)
        names = list(component.packages(part, context)) if part else []
        entry = recorded.get(name)
        if entry is None and not names:
            continue
        theirs = dict((entry or {}).get("theirs") or {})
        ours = set((entry or {}).get("ours") or ())
        for package in sorted(_new_to(component, part, context, record) - ours):
            if package in context.packages:
                theirs.setdefault(package, context.packages[package]["version"])
        ours = (ours | set(names)) - set(theirs)
        result[name] = {"ours": sorted(ours), "theirs": theirs}
    return result


def _new_to(component: Any, part: Any, context: Context, record: Any) -> set[str]:
    """The packages that no run can have installed unless the ledger has them as ours."""
    record = record or {}
    if not part:
        return set()
    if component.NAME in (record.get("packages") or {}):
        # What comes with the named ones is known by its name only once it is there.
        named = getattr(component, "named_packages", component.packages)
        return set(named(part, context))
    # A receipt without a ledger is from before there was one: the run was ours.
    touched = (record.get("after") or {}).get(component.NAME) is not None
    return set() if touched else set(component.packages(part, context))


def noted(context: Context) -> dict[str, Any] | None:
    """What tells whose packages are: the mark of a run that did not end, else the receipt."""
    record = mapping.of(context.read(receipt.UNFINISHED))
    if record is not None and record.get("packages"):
        return record
    return receipt.look(context)


# the look


def look(context: Context, name: str, owned: dict[str, Any] | None) -> list[list[Any]]:
    """[[item, what is there]] of what is left of a component and is this program's own.

    `owned`: the component's part of the ledger.
    """
    module = MODULES[name]
    packages = [package for package in (owned or {}).get("ours") or []
                if package in context.packages]  # fmt: skip
    remains = [[package, context.packages[package]["version"]] for package in packages]
    remains += [[path, "present"] for path in owned_files.paths(context, files(name))]
    remains += module.remains(context, packages)
    return remains


def differ(name: str, remains: list[list[Any]]) -> Changes:
    """One change for everything that is left of it."""
    reason = "{0}_state is absent".format(name)
    return [change(name, item, seen, "absent", reason) for item, seen in remains]


# what forbids it


def preflight_look(context: Context, changes: Changes, removed: Sequence[str]) -> dict[str, Any]:
    """What is to be known before something is taken: who needs the packages, who uses the files."""
    ours = [entry for entry in changes if entry["component"] in removed and entry["selected"]]
    packages = [entry["item"] for entry in ours if entry["item"] in context.packages]
    components = {entry["component"] for entry in ours}
    survey = {
        "dependents": dependents(context, packages) if packages else [],
        "using": _using(context, components),
    }
    for name in MODULES:
        if name in components and hasattr(MODULES[name], "survey"):
            survey.update(MODULES[name].survey(context))
    return survey


def dependents(context: Context, names: Iterable[str]) -> list[list[Any]]:
    """[[package, [what it needs of them]]] of what apt would take along, or "apt" with its words.

    apt is asked, for it alone knows what may stand in for what.
    """
    command = ["apt-get", "remove", "--simulate", "--allow-change-held-packages"]
    answer = context.run([*command, *apt_commands.SETTINGS, *sorted(names)])
    if answer.rc == 127:
        return []  # not the running system
    if answer.rc != 0:
        lines = [line for line in (answer.err or answer.out).splitlines() if line.strip()]
        return [["apt", lines[-3:]]]
    needs = dpkg.needs(context)
    packages = []
    for name in apt_removal.TOUCHED.findall(answer.out):
        if name not in names:
            packages.append([name, sorted(needs.get(name, set()) & set(names))])
    return packages


def _using(context: Context, components: set[str]) -> list[dict[str, Any]]:
    """[{pid, user, command, component}] of processes that have files of these open as code."""
    asked = [(name, MODULES[name]) for name in sorted(components) if name in MODULES]
    # The kernel tells where a file really is: a root may be a link to another disk.
    places = {
        name: (context.resolve(module.root(context)) or module.root(context)) + "/"
        for name, module in asked
        if hasattr(module, "root")
    }
    bases = {
        name: ["/" + soname.split(".so")[0] + ".so" for soname in module.sonames(context)]
        for name, module in asked
        if hasattr(module, "sonames")
    }
    users = []
    for path in context.glob("/proc/[0-9]*/maps") if places or any(bases.values()) else []:
        text = context.read(path)
        if text is None:  # root of a container may not be allowed to ask
            text = code_users.started(context, context.read(path[: -len("maps")] + "cmdline") or "")
        used = [name for name in places if places[name] in text]
        used += [name for name in bases if any(base in text for base in bases[name])]
        if used:
            pid = path.split("/")[2]
            comm = (context.read("/proc/{0}/comm".format(pid)) or "").strip()
            users.append(dict(processes.process(context, pid, comm), component=used[0]))
    return users


def blockers(
    facts: Facts,
    changes: Changes,
    options: Options,
    row: Any,
    removed: Sequence[str],
) -> list[dict[str, Any]]:
    """Reasons not to take away what these (selected) changes name. Pure."""
    survey = facts["preflight"].get("removal") or {}
    reasons = []
    for name, needs in survey.get("dependents") or []:
        if name == "apt":
            message = "apt can't take the packages away: {0}".format(" ".join(needs))
            hint = "`apt-get check` shows what is broken; repair that first"
        elif needs:
            message = "{0} is installed and needs {1}, set to absent".format(name, ", ".join(needs))
            hint = "remove {0} by hand if nobody needs it, or let the component stay".format(name)
        else:
            message = "apt would change {0} with it, which is not this program's".format(name)
            hint = "`apt-get remove --simulate` with the packages of the plan shows why"
        reasons.append(blocker("needed-package", None, message, hint))
    for name in MODULES:
        if name in removed and hasattr(MODULES[name], "blockers"):
            reasons += MODULES[name].blockers(facts, changes, options, row)
    for entry in survey.get("using") or []:
        message = "pid {0} of {1} uses {2}, set to absent: {3}".format(
            entry["pid"], entry["user"], SPOKEN[entry["component"]], entry["command"]
        )
        hint = "run again when it has ended; none is ever ended for you"
        reasons.append(blocker("in-use", entry["component"], message, hint))
    return reasons


def notices(facts: Facts, ledgers: dict[str, Any], removed: Sequence[str]) -> list[dict[str, Any]]:
    """What a person should know of what stays. Pure."""
    result = []
    for name in removed:
        theirs = (ledgers.get(name) or {}).get("theirs") or {}
        if theirs:
            message = "{0} stay on the host: they were there before this program came".format(
                ", ".join("{0} {1}".format(package, theirs[package]) for package in sorted(theirs))
            )
            result.append(blocker("there-before", name, message, ""))
    for name in reversed(list(MODULES)):
        if name in removed and hasattr(MODULES[name], "notices"):
            result += MODULES[name].notices(facts)
    return result
