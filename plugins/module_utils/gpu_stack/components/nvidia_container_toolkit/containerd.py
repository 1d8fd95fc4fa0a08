"""containerd: whether CRI clients find NVIDIA's runtime in its configuration.

A containerd that only serves docker does not need the runtime, so it is configured only where a CRI
client is installed. The effective configuration is containerd's own output: config.toml may import
other files.
"""

from __future__ import annotations

import re

from ...change import change
from ...type_checking import TYPE_CHECKING
from . import containerd_default, units

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, State

CONFIG = "/etc/containerd/config.toml"
PROGRAMS = ("/usr/bin/containerd", "/usr/local/bin/containerd")
# Programs that create containers through CRI; docker does not.
USERS = ("kubelet", "crictl", "nerdctl")
PLACES = ("/usr/bin/", "/usr/local/bin/", "/usr/sbin/")
RUNTIME = units.RUNTIME
NAME = "nvidia-container-runtime"
BEGIN = "# Begin of what the Ansible role nvidia_container_toolkit wrote; changes here are lost.\n"
END = "# End of what the Ansible role nvidia_container_toolkit wrote.\n"
UNIT = "containerd.service"
OWED = "/run/provision/containerd-restart"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/"
# The CRI plugin's name, by the version of the configuration's format.
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
ENTRY = CONFIG + " runtimes.nvidia"
DEFAULT = CONFIG + " " + containerd_default.KEY
RESTART = "containerd daemon"
PATIENCE = "20"
DAEMON = units.Daemon("containerd", "containerd", UNIT, "/run/containerd/containerd.sock", OWED)
daemon, owed = DAEMON.process, DAEMON.restart_due
stale, restarts = units.stale, units.restarts


def wish(options: Options) -> str:
    return options.get("nvidia_container_toolkit_containerd") or "auto"


def is_default_wished(options: Options) -> bool:
    return bool(options.get("nvidia_container_toolkit_containerd_default"))


def installed(context: Context) -> bool:
    return any(context.exists(path) for path in PROGRAMS)


def used(context: Context) -> bool:
    """Whether a CRI client is installed, which `auto` depends on."""
    return any(context.exists(place + name) for place in PLACES for name in USERS)


def needs_runtime(context: Context) -> bool:
    """Whether containerd is to know the runtime; one that only serves docker is not."""
    option_value = wish(context.options)
    if option_value == "none" or not installed(context):
        return False
    return option_value == "required" or (used(context) and not disabled(context.read(CONFIG)))


# config.toml


def version(content: str | None) -> int:
    """Version of the configuration's format; 1 if it names none, 2 if it is empty."""
    match = re.search(r"(?m)^\s*version\s*=\s*(\d+)\s*(?:#.*)?$", content or "")
    if match is not None:
        return int(match.group(1))
    return 1 if re.search(r"(?m)^\s*[^#\s]", content or "") else 2


def disabled(content: str | None) -> bool:
    """Whether the configuration disables CRI, as in Docker's package of containerd."""
    match = re.search(r"(?ms)^\s*disabled_plugins\s*=\s*\[(.*?)\]", content or "")
    return bool(match and re.search(r"[\"'](io\.containerd\.grpc\.v1\.)?cri[\"']", match.group(1)))


def torn(content: str | None) -> int | None:
    """Number of the line that begins the role's block, if its end is missing; None otherwise.

    Such a block can't be told from other people's lines.
    """
    if content and not content.endswith("\n"):
        content += "\n"
    before, begin, rest = (content or "").partition(BEGIN)
    inner, end, _after = rest.partition(END)
    if not begin or (end and BEGIN not in inner):
        return None
    return before.count("\n") + 1


def _torn_words(content: str | None) -> str | None:
    line = torn(content)
    if line is None:
        return None
    return f"line {line} begins this role's table, and no line ends it ({END.strip()})"


# the effective configuration


def parsed(dump: str) -> dict[tuple[str, str], str]:
    """{(table, key): value's text} of the output of `containerd config dump`."""
    values, table = {}, ""
    for line in dump.splitlines():
        line = line.strip()
        head = re.match(r"\[([^\[\]]*)\]$", line)
        if head is not None:
            table = head.group(1).replace("'", '"')
        elif "=" in line:
            key, _mark, value = line.partition("=")
            values[table, key.strip()] = value.strip()
    return values


def table(number: int, runtime: str) -> str:
    """Name of a runtime's table in this version of the format."""
    return f'plugins."{PLUGINS[number]}".containerd.runtimes.{runtime}'


def option(dump: dict[tuple[str, str], str], runtime: str, key: str) -> str | None:
    """An option of a runtime under any of the plugin's names; None without one."""
    for number in sorted(PLUGINS):
        value = dump.get((table(number, runtime) + ".options", key))
        if value is not None:
            return value.strip("\"'")
    return None


def program(dump: dict[tuple[str, str], str]) -> str | None:
    """Program of the runtime nvidia; None without one."""
    return option(dump, "nvidia", "BinaryName") or None


def default_name(dump: dict[tuple[str, str], str]) -> str:
    """Name of the default runtime; runc, containerd's own, where nothing names one."""
    values = [value for (_table, key), value in dump.items() if key == containerd_default.KEY]
    return next((value.strip("\"'") for value in values if value.strip("\"'")), "runc")


def default(dump: dict[tuple[str, str], str]) -> bool:
    """Whether nvidia is the default runtime."""
    return default_name(dump) == "nvidia"


def sets_default(content: str | None) -> bool:
    """Whether the role's lines, or one of them in somebody else's table, set the default."""
    inner = (content or "").partition(BEGIN)[2].partition(END)[0]
    return containerd_default.is_ours(content) or containerd_default.KEY in inner


def look(context: Context) -> dict[str, Any]:
    """{"installed", "wanted", "fault", "runtime", "other", "default", "running", "owed", "loses"}.

    runtime: program of the runtime nvidia. other: whether its cgroups differ from runc's. default:
    name of the default runtime where that is to be another, None where it is right. owed:
    whether a restart is pending. loses: why a restart would end containers. containerd is asked
    only if it is to know the runtime.
    """
    state = units.not_asked(installed(context), needs_runtime(context))
    if not state["wanted"]:
        return state
    content = context.read(CONFIG)
    if disabled(content):
        state["fault"] = "disabled_plugins switches CRI off"
        return state
    state["fault"] = _torn_words(content)
    if state["fault"] is not None:
        return state
    if version(content) not in PLUGINS:
        state["fault"] = f"version {version(content)}; expected 2 or 3"
        return state
    answer = context.run(["timeout", PATIENCE, "containerd", "config", "dump"])
    if answer.rc != 0:
        state["fault"] = "not read by containerd: " + (units.last_line(answer) or "no answer")
        return state
    dump = parsed(answer.out)
    state["runtime"] = program(dump)
    cgroups = [option(dump, runtime, "SystemdCgroup") or "false" for runtime in ("runc", "nvidia")]
    state["other"] = BEGIN in (content or "") and cgroups[0] != cgroups[1]
    if state["runtime"] not in (None, RUNTIME):
        state["fault"] = "a runtime nvidia of somebody else's, by " + state["runtime"]
    wished = is_default_wished(context.options)
    if (wished and not default(dump)) or (not wished and sets_default(content)):
        state["default"] = [default_name(dump), "nvidia" if wished else "as before"]
    DAEMON.finish(context, state, losing)
    return state


def at_work(context: Context) -> list[tuple[str, str]]:
    """[(namespace, identity)] of the containers whose shims run."""
    paths = [path.split("/") for path in context.glob(TASKS + "*/*/address")]
    return [(parts[-3], parts[-2]) for parts in paths]


def losing(context: Context) -> str | None:
    """Why a restart would end containers; None where they survive it, or none runs."""
    spaces = [space for space, _identity in at_work(context)]
    if not spaces:
        return None
    if units.shown(context, UNIT, "KillMode") != "process":
        return "KillMode of containerd.service is not process"
    bound = [units.shown(context, UNIT, name) for name in ("BoundBy", "RequiredBy", "ConsistsOf")]
    if "moby" in spaces and "docker.service" in " ".join(bound).split():
        return "docker.service would be restarted with containerd"
    return None


def differ(name: str, state: State) -> Changes:
    """Changes to containerd: the runtime's table, and the restart that loads it."""
    old = state["fault"] or ("other cgroups than runc's" if state["other"] else None)
    changes = units.cri_changes(
        name,
        state,
        (ENTRY, old, "who speaks CRI finds the runtime by it; all else in the file stays"),
        (RESTART, "containerd reads its configuration when it starts, and at no other time"),
    )
    if state["wanted"] and state.get("default") is not None:
        former, new = state["default"]
        reason = "pods that name no runtime class get it; all else in the file stays"
        restart = len(changes) - (1 if restarts(state) else 0)
        changes.insert(restart, change(name, DEFAULT, former, new, reason))
    return changes


def users(context: Context) -> list[str]:
    """NAMESPACE/IDENTITY of running containers that NVIDIA's program started, without docker's."""
    names = []
    for space, identity in at_work(context):
        options = context.read(f"{TASKS}{space}/{identity}/options.json")
        if space != "moby" and NAME in (options or ""):
            names.append(f"{space}/{identity}")
    return names


def removal_blockers(context: Context) -> list[list[str]]:
    """[[rule, message, hint]] of what forbids the toolkit's removal from containerd."""
    content = context.read(CONFIG) or ""
    if not installed(context):
        return []
    reasons = DAEMON.users_in_the_way(users(context))
    if wish(context.options) == "none" or not _is_written(content):
        return reasons
    fault = _torn_words(content)
    if fault is not None:
        hint = "put the end back below the table, or take the table and its begin out"
        return [*reasons, ["containerd-config", f"{CONFIG}: {fault}", hint]]
    dump = parsed(context.run(["timeout", PATIENCE, "containerd", "config", "dump"]).out)
    if default(dump) and not sets_default(content):
        message = f"{CONFIG} names nvidia as its default_runtime_name"
        reasons.append(["containerd-config", message, "take that out first"])
    lost = losing(context) if context.lstat(DAEMON.socket) is not None else None
    return reasons + DAEMON.restart_in_the_way(lost)


def _is_written(content: str) -> bool:
    """Whether anything in the configuration is this role's."""
    return BEGIN in content or containerd_default.is_ours(content)


def remains(context: Context) -> list[list[str]]:
    """[[item, value]] of the role's lines in containerd's configuration."""
    content = context.read(CONFIG) or ""
    if wish(context.options) == "none":
        return []
    table = [[ENTRY, RUNTIME]] if BEGIN in content else []
    return [*table, [DEFAULT, "nvidia"]] if sets_default(content) else table
