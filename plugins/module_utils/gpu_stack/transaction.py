"""What apt would take away to install the exact versions of the lock.

An exact version can be in the way of somebody's package: one that needs another version, or one
that conflicts. apt then removes that package with no further question, and the plan would not say
so. Only apt can tell, so it is asked before anything is touched; where its lists do not know the
versions yet (a bare host), the roles ask again before they install.
"""

import re

from .change import change
from .components import cuda, nvidia_container_toolkit, nvidia_driver
from .components.nvidia_driver import driver_method, driver_packages
from .host import dpkg
from .rules import Rule

TOOLKIT = nvidia_container_toolkit.NAME
SIMULATE = (
    "apt-get",
    "install",
    "--simulate",
    "--no-install-recommends",
    "--allow-downgrades",
    "--allow-change-held-packages",
    "-oAPT::Get::AutomaticRemove=false",
)
# More of them are "and N more": a person reads the message.
MANY = 4


def _wanted(context, component):
    """{package: version} that the role of one component installs."""
    part = context.part(component)
    if not part:
        return {}
    if component == cuda.NAME:
        return cuda.profile_packages(part, context.options)
    if component == TOOLKIT:
        return nvidia_container_toolkit.locked_packages(part)
    scope = driver_packages.resolve_scope(context.options, context.container)
    wanted = driver_packages.wanted_packages(part, scope, context.options)
    return {name: wanted[name] for name in wanted if not driver_method.OF_KERNEL.match(name)}


def locked(row):
    """The names of all packages that the lock has for a host."""
    driver = row.get(nvidia_driver.NAME)
    names = set(driver_packages.all_packages(driver) if driver else ())
    for name in ("cuda", TOOLKIT):
        for sets in ((row.get(name) or {}).get("packages") or {}).values():
            names.update(sets)
    return names


def look(context, changes, gone):
    """{"removed": [[package, version, [why]]], "held": [[package, version, new]]}.

    Of the selected changes' components, those in `gone` left out. Packages that the changes
    remove anyway are named to apt as such and are not in the answer.
    """
    names = sorted({one["component"] for one in changes if one["selected"]} - set(gone))
    wanted = {name: _wanted(context, name) for name in (nvidia_driver.NAME, cuda.NAME, TOOLKIT)
              if name in names}  # fmt: skip
    wanted = {name: wanted[name] for name in wanted if _differs(context, wanted[name])}
    if not wanted:
        return {"removed": [], "held": []}
    leaving = sorted(
        one["item"] for one in changes
        if one["selected"] and one["to"] is None and one["component"] == nvidia_driver.NAME
        and one["item"] in context.packages and nvidia_driver.NAME in wanted
    )  # fmt: skip
    together = {}
    for name in sorted(wanted):
        together.update(wanted[name])
    answers = [_ask(context, together, leaving)]
    if answers[0] is None and len(wanted) > 1:
        answers = [
            _ask(context, wanted[name], leaving if name == nvidia_driver.NAME else [])
            for name in sorted(wanted)
        ]
    found = {"removed": [], "held": []}
    for answer in answers:
        for kind in answer or ():
            found[kind] += [one for one in answer[kind] if one not in found[kind]]
    return found


def _differs(context, wanted):
    """True where apt would have to install something."""
    for name in wanted:
        seen = context.packages.get(name)
        if seen is None or seen["version"] != wanted[name]:
            return True
    return False


def _ask(context, wanted, leaving):
    """apt's answer for one transaction; None where it has none (a version it does not know)."""
    specs = ["{0}={1}".format(name, wanted[name]) for name in sorted(wanted)]
    answer = context.run([*SIMULATE, *specs, *[name + "-" for name in leaving]])
    if answer.rc != 0:
        return None
    names = [word.split(":")[0] for word in re.findall(r"^Remv (\S+)", answer.out, re.M)]
    removed = sorted(set(names) - set(leaving))
    # What goes may need what goes with it.
    why = _whys(context, set(wanted) | set(removed) | set(leaving)) if removed else {}
    held = [
        [name.split(":")[0], old, new]
        for name, old, new in re.findall(r"^Inst (\S+) \[(\S+)\] \((\S+)", answer.out, re.M)
        if name.split(":")[0] not in wanted
        and context.packages.get(name.split(":")[0], {}).get("want") == "hold"
    ]
    return {
        "removed": [
            [name, context.packages.get(name, {}).get("version"), why.get(name, [])]
            for name in removed
        ],
        "held": held,
    }


def _whys(context, changing):
    """{package: ["needs libcublas11", "conflicts with libcuda1"]} as far as dpkg knows."""
    found = {}
    for word, field in (
        ("needs", r"(?:Pre-)?Depends"),
        ("conflicts with", r"(?:Conflicts|Breaks)"),
    ):
        for name, others in dpkg.needs(context, field).items():
            if others & changing:
                text = "{0} {1}".format(word, ", ".join(sorted(others & changing)))
                found.setdefault(name, []).append(text)
    return found


def parts(found):
    """{package: version} of what would go and is a part of a driver."""
    return {
        name: version
        for name, version, _why in found.get("removed") or []
        if driver_method.DRIVER.match(name)
    }


def differ(found, options):
    """The changes for parts of another driver that go in the transaction. Pure.

    A driver that our own pins do not name is somebody else's: its parts go only where the wish
    says to switch.
    """
    state = found["state"][nvidia_driver.NAME]
    if state.get("method") is None and options.get("nvidia_driver_switch") != "switch":
        return []
    known = state.get("leftovers") or {}
    seen = parts(found["preflight"]["transaction"])
    reason = "it works with another version of the driver only"
    return [
        change(nvidia_driver.NAME, name, seen[name], None, reason)
        for name in sorted(seen)
        if name not in known
    ]


def _some(rows):
    words = [
        "{0} {1}{2}".format(name, version, " ({0})".format("; ".join(why)) if why else "")
        for name, version, why in rows[:MANY]
    ]
    more = len(rows) - MANY
    return ", ".join(words) + (" and {0} more".format(more) if more > 0 else "")


def unplanned_removals(found, changes, _options, _row):
    """[(message, hint)] for what would go, or change, that is not in the plan. Pure."""
    seen = found["preflight"].get("transaction") or {}
    planned = {one["item"] for one in changes if one["to"] is None}
    removed = [one for one in seen.get("removed") or [] if one[0] not in planned]
    drivers = [one for one in removed if driver_method.DRIVER.match(one[0])]
    others = [one for one in removed if one not in drivers]
    # Another rule names those, with the same way out.
    foreign = found["preflight"].get("foreign") or []
    drivers = [one for one in drivers if one[0] not in foreign]
    told = []
    if drivers:
        hint = "nvidia_driver_switch: switch lets the run remove them; or apt-get remove " + (
            " ".join(one[0] for one in drivers)
        )
        message = "parts of another NVIDIA driver cannot stay beside the lock's versions: "
        told.append((message + _some(drivers), hint))
    if others:
        message = "apt would remove packages for the lock's versions: " + _some(others)
        hint = "`apt-get remove {0}` if nobody needs them, or wish for a stack that they can live "
        hint += "with; nothing is removed for you"
        told.append((message, hint.format(" ".join(one[0] for one in others))))
    held = seen.get("held") or []
    if held:
        words = ", ".join("{0} {1} to {2}".format(*one) for one in held[:MANY])
        message = "apt would change packages that somebody holds: " + words
        hint = "apt-mark unhold {0}, if the hold is not wanted any more"
        told.append((message, hint.format(" ".join(one[0] for one in held))))
    return told


RULES = (Rule("unplanned-removal", None, True, unplanned_removals),)
