"""Components that are wished away: what of theirs is on the host, and what forbids taking it.

`<component>_state: absent` removes what this program put on a host, and nothing else. dpkg does not
know who asked for a package, so a ledger in the receipt tells: the packages that a run of ours
installed, and those that were there before the first one, which are its owner's and stay. Files and
trees are known by their names and marks.
"""

from __future__ import annotations

import json
import re

from . import receipt
from .change import blocker, change
from .components import (
    SPOKEN,
    cuda,
    cudnn,
    gpu_env,
    nvidia_container_toolkit,
    nvidia_driver,
    tensorflow,
)
from .components.cuda import nvidia_cuda
from .components.nvidia_container_toolkit import cdi, containerd, crio, docker
from .components.nvidia_container_toolkit import departure as toolkit_departure
from .components.nvidia_driver import driver_method, driver_packages
from .components.nvidia_driver import rules as driver_rules
from .components.tensorflow import venv_use
from .host import dpkg, processes

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence

    from .host.context import Context
    from .shapes import Changes, Facts, Options

TOOLKIT = nvidia_container_toolkit.NAME
# Driver and CUDA name Debian's components in one file, and the driver may use CUDA's for NVIDIA's
# repository; whoever is taken away last takes them along.
SHARED = "/etc/apt/sources.list.d/provision-debian-nonfree.sources"
REPOSITORY = (
    "/etc/apt/sources.list.d/provision-cuda*",
    "/etc/apt/keyrings/provision-cuda*",
    "/usr/share/keyrings/provision-cuda*",
    "/etc/apt/auth.conf.d/provision-cuda*",
)
# Who is at work forbids taking a driver away as it forbids changing it.
DISTURBANCES = (
    ("gpu-processes", driver_rules.gpu_processes),
    ("maintenance-window", driver_rules.maintenance_window),
    ("logged-in", driver_rules.logged_in),
)
# What the roles write whole, as patterns.
FILES = {
    "nvidia_driver": (
        nvidia_driver.PINS,
        nvidia_driver.UPGRADES,
        nvidia_driver.BLACKLIST,
        "/etc/apt/apt.conf.d/*provision-nvidia-driver",
        "/etc/apt/sources.list.d/provision-nvidia-driver*",
        "/etc/apt/keyrings/provision-nvidia-driver*",
        "/usr/share/keyrings/provision-nvidia-driver*",
        "/etc/apt/auth.conf.d/provision-nvidia-driver*",
    ),
    "cuda": (cuda.PREFERENCES, nvidia_cuda.LOW, nvidia_cuda.APT, nvidia_cuda.LOADER),
    "cudnn": (cudnn.LOADER_FILE,),
    "gpu_env": (gpu_env.PROFILE, gpu_env.UNITS, gpu_env.LOADER, gpu_env.MANAGER),
    TOOLKIT: (
        nvidia_container_toolkit.KEY,
        nvidia_container_toolkit.SOURCES,
        nvidia_container_toolkit.PREFERENCES,
        nvidia_container_toolkit.APT,
        "/etc/apt/auth.conf.d/provision-nvidia-container-toolkit.conf",
    ),
    "tensorflow": (),
}


def patterns(context: Context, name: str) -> Sequence[str]:
    """FILES, and of what two components share what no other one needs."""
    if name == "cuda":
        pins = context.read(nvidia_driver.PINS)
        own = () if "Source: network" in (pins or "") else REPOSITORY
        return [*FILES[name], *own, *(() if pins is not None else (SHARED,))]
    if name == "nvidia_driver" and not context.exists(cuda.PREFERENCES):
        return [*FILES[name], *REPOSITORY, SHARED]
    return FILES[name]


def paths(context: Context, name: str) -> list[str]:
    """The files of a component that are there; none where there is no such component."""
    if name not in FILES:
        return []
    return [path for pattern in patterns(context, name) for path in context.glob(pattern)]


def without(changes: Changes, removed: Sequence[str]) -> list[dict[str, Any]]:
    """The changes as preflight's rules see them: a removal is work, and nothing is installed."""
    return [
        dict(entry, component=receipt.NAME) if entry["component"] in removed else entry
        for entry in changes
    ]


# packages: whose they are


def _locked(name: str, row: Any, options: Options, container: bool) -> list[str]:
    """Names that a run with this row and these options installs."""
    if name not in row:
        return []
    if name == "cuda":
        return list(cuda.profile_packages(row[name], options))
    if name == TOOLKIT:
        return list(nvidia_container_toolkit.locked_packages(row[name]))
    scope = driver_packages.resolve_scope(options, container)
    return list(driver_packages.wanted_packages(row[name], scope, options))


def ledger(context: Context, row: Any, record: dict[str, Any] | None) -> dict[str, Any]:
    """{component: {"ours": [names], "theirs": {name: version}}} of the components with packages.

    `record`: the receipt, or the mark of an unfinished run. Whose a package is, is decided before
    the first run touches the component, and kept until it is taken away.
    """
    known = (record or {}).get("packages") or {}
    result = {}
    for name in ("nvidia_driver", "cuda", TOOLKIT):
        names = _locked(name, row or {}, context.options, context.container)
        entry = known.get(name)
        if entry is None and not names:
            continue
        if entry is None:
            # A receipt without a ledger is from before there was one: the run was ours.
            touched = ((record or {}).get("after") or {}).get(name) is not None
            installed = {package: context.packages[package]["version"] for package in names
                     if package in context.packages and not touched}  # fmt: skip
            entry = {"ours": [], "theirs": installed}
        theirs = dict(entry.get("theirs") or {})
        ours = (set(entry.get("ours") or ()) | set(names)) - set(theirs)
        result[name] = {"ours": sorted(ours), "theirs": theirs}
    return result


def noted(context: Context) -> dict[str, Any] | None:
    """What tells whose packages are: the mark of a run that did not end, else the receipt."""
    try:
        record = json.loads(context.read(receipt.UNFINISHED) or "")
    except ValueError:
        record = None
    if isinstance(record, dict) and record.get("packages"):
        return record
    return receipt.look(context)


# the look


def look(context: Context, name: str, owned: dict[str, Any] | None) -> list[list[Any]]:
    """[[item, what is there]] of what is left of a component and is this program's own.

    `owned`: the component's part of the ledger.
    """
    remains = []
    for package in (owned or {}).get("ours") or []:
        if package in context.packages:
            remains.append([package, context.packages[package]["version"]])
    remains += [[path, "present"] for path in paths(context, name)]
    more = {
        "nvidia_driver": _runfile,
        "cuda": _tools,
        "cudnn": _trees,
        "gpu_env": _blocks,
        TOOLKIT: toolkit_departure.remains,
        "tensorflow": _environments,
    }
    if name == TOOLKIT:
        remains += cdi.remains(context, [package for package, _ in remains])
    remains += more[name](context)
    return remains


def _runfile(context: Context) -> list[list[Any]]:
    """The driver of NVIDIA's installer, where the role's pins say that it was ours to run."""
    driver = driver_method.runfile(context)
    pins = context.read(nvidia_driver.PINS)
    if driver is None or driver_method.of_pins(pins) != driver_method.RUNFILE:
        return []
    return [[nvidia_driver.RUNFILE_ITEM, driver["version"]]]


def _tools(context: Context) -> list[list[Any]]:
    """What profile runtime took out of the toolkit's package, and our marks in NVIDIA's trees."""
    remains = [[path, "present"] for path in context.glob("/usr/local/cuda-*/" + nvidia_cuda.MARK)]
    if context.exists(cuda.TOOLS_MARKER) and cuda.TOOLS_PACKAGE not in context.packages:
        remains.append([cuda.TOOLS_MARKER, "present"])
    return remains


def _marked(context: Context, root: str, mark: str) -> list[list[Any]]:
    """Directories below `root` that hold our mark, and `current` where it leads to one."""
    paths = [
        "{0}/{1}".format(root, name)
        for name in context.listdir(root)
        if name != "current" and context.exists("{0}/{1}/{2}".format(root, name, mark))
    ]
    target = context.readlink(root + "/current")
    if target is not None and "/" not in target.rstrip("/"):
        place = "{0}/{1}".format(root, target)
        if place in paths or not context.exists(place):
            paths.append(root + "/current")
    return [[path, "present"] for path in paths]


def _trees(context: Context) -> list[list[Any]]:
    return _marked(context, cudnn.root_of(context.options), cudnn.layout.MANIFEST)


def _environments(context: Context) -> list[list[Any]]:
    return _marked(context, tensorflow.root_of(context.options), tensorflow.MARKER)


def _blocks(context: Context) -> list[list[Any]]:
    """Files of others that hold our lines."""
    remains = []
    if gpu_env.shell_startup.between_markers(context.read(gpu_env.PAM)) is not None:
        remains.append([gpu_env.PAM, "our lines"])
    for user in context.options.get("gpu_env_bashrc_users") or []:
        text, fault = gpu_env.shell_startup.bashrc(context, user)
        if text is not None and fault is None:
            remains.append(["~{0}/.bashrc".format(user), "our lines"])
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
    return {
        "dependents": dependents(context, packages) if packages else [],
        "using": _using(context, {entry["component"] for entry in ours}),
        "docker": docker.parting(context)
        if any(entry["component"] == TOOLKIT for entry in ours)
        else None,
        "pods": containerd.parting(context) + crio.parting(context)
        if any(entry["component"] == TOOLKIT for entry in ours)
        else [],
    }


def dependents(context: Context, names: Iterable[str]) -> list[list[Any]]:
    """[[package, [what it needs of them]]] of what apt would take along, or "apt" with its words.

    apt is asked, for it alone knows what may stand in for what.
    """
    answer = context.run(
        ["apt-get", "remove", "--simulate", "--allow-change-held-packages", *sorted(names)]
    )
    if answer.rc == 127:
        return []  # not the running system
    if answer.rc != 0:
        lines = [line for line in (answer.err or answer.out).splitlines() if line.strip()]
        return [["apt", lines[-3:]]]
    needs = dpkg.needs(context)
    packages = []
    for word in re.findall(r"^(?:Remv|Inst) (\S+)", answer.out, re.M):
        name = word.split(":")[0]
        if name not in names:
            packages.append([name, sorted(needs.get(name, set()) & set(names))])
    return packages


def _using(context: Context, components: set[str]) -> list[dict[str, Any]]:
    """[{pid, user, command, component}] of processes that have files of these open as code."""
    places = {
        "tensorflow": tensorflow.root_of(context.options),
        "cudnn": cudnn.root_of(context.options),
    }
    # The kernel tells where a file really is: a root may be a link to another disk.
    places = {
        name: (context.resolve(places[name]) or places[name]) + "/"
        for name in places
        if name in components
    }
    sonames = context.part("cuda").get("sonames") or {}
    bases = [name.split(".so")[0] + ".so" for name in sonames] if "cuda" in components else []
    users = []
    for path in context.glob("/proc/[0-9]*/maps") if places or bases else []:
        text = context.read(path)
        if text is None:  # root of a container may not be allowed to ask
            text = venv_use.started(context, context.read(path[: -len("maps")] + "cmdline") or "")
        used = [name for name in sorted(places) if places[name] in text]
        used += ["cuda"] if any("/" + base in text for base in bases) else []
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
            message = "{0} is installed and needs {1}, wished away".format(name, ", ".join(needs))
            hint = "remove {0} by hand if nobody needs it, or let the component stay".format(name)
        else:
            message = "apt would change {0} with it, which is not this program's".format(name)
            hint = "`apt-get remove --simulate` with the packages of the plan shows why"
        reasons.append(blocker("needed-package", None, message, hint))
    driver = [entry for entry in changes if entry["component"] == "nvidia_driver"]
    if "nvidia_driver" in removed and driver:
        for identifier, rule in DISTURBANCES:
            for message, hint in rule(facts, driver, options, row):
                message = message.replace("would be changed", "would be taken away")
                reasons.append(blocker(identifier, "nvidia_driver", message, hint))
    reasons += toolkit_departure.reasons(survey.get("docker"))
    for rule, message, hint in survey.get("pods") or []:
        reasons.append(blocker(rule, TOOLKIT, message, hint))
    for entry in survey.get("using") or []:
        message = "pid {0} of {1} uses {2}, wished away: {3}".format(
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
    if tensorflow.NAME in removed:
        result += [
            blocker("venv-kept", tensorflow.NAME, message, hint)
            for message, hint in venv_use.kept(facts, [], {}, {})
        ]
    if "nvidia_driver" in removed and facts["state"]["nvidia_driver"].get("loaded"):
        message = "the loaded kernel module stays until the host is rebooted"
        result.append(blocker("module-stays", "nvidia_driver", message, ""))
    return result
