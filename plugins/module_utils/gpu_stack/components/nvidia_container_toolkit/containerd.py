"""containerd's runtimes: whether those who make containers by CRI find NVIDIA's under its name.

containerd that merely serves docker needs nothing of it, so it is looked at only where somebody
speaks CRI. What containerd makes of its files is asked of itself: config.toml may import others.
"""

import re

from ...change import change
from . import units

CONFIG = "/etc/containerd/config.toml"
PROGRAMS = ("/usr/bin/containerd", "/usr/local/bin/containerd")
# Who makes containers by CRI; docker does not.
USERS = ("kubelet", "crictl", "nerdctl")
PLACES = ("/usr/bin/", "/usr/local/bin/", "/usr/sbin/")
RUNTIME = "/usr/bin/nvidia-container-runtime"
NAME = "nvidia-container-runtime"
BEGIN = "# Begin of what the Ansible role nvidia_container_toolkit wrote; changes here are lost.\n"
END = "# End of what the Ansible role nvidia_container_toolkit wrote.\n"
UNIT = "containerd.service"
OWED = "/run/provision/containerd-restart"
SOCKET = "/run/containerd/containerd.sock"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/"
# The CRI plugin's name, by the version of the configuration's format.
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
ENTRY = CONFIG + " runtimes.nvidia"
RESTART = "containerd daemon"
PATIENCE = "20"


def wish(options):
    return options.get("nvidia_container_toolkit_containerd") or "auto"


def installed(context):
    return any(context.exists(path) for path in PROGRAMS)


def used(context):
    """Is there somebody who makes containers by CRI? The rule of `auto`."""
    return any(context.exists(place + name) for place in PLACES for name in USERS)


def wanted(context):
    """Is containerd to know the runtime? Where it serves docker alone nobody would look there."""
    said = wish(context.options)
    if said == "none" or not installed(context):
        return False
    return said == "required" or (used(context) and not disabled(context.read(CONFIG)))


# config.toml


def version(content):
    """The format's version, as the text says it; 1 without a word, 2 of an empty one."""
    said = re.search(r"(?m)^\s*version\s*=\s*(\d+)\s*(?:#.*)?$", content or "")
    if said is not None:
        return int(said.group(1))
    return 1 if re.search(r"(?m)^\s*[^#\s]", content or "") else 2


def disabled(content):
    """Does the text switch CRI off? Docker's package of containerd brings such a file."""
    said = re.search(r"(?ms)^\s*disabled_plugins\s*=\s*\[(.*?)\]", content or "")
    return bool(said and re.search(r"[\"'](io\.containerd\.grpc\.v1\.)?cri[\"']", said.group(1)))


def torn(content):
    """The line that begins the role's block where no line ends it; None where it is whole.

    Such a block can't be told from what is somebody else's.
    """
    if content and not content.endswith("\n"):
        content += "\n"
    before, begin, rest = (content or "").partition(BEGIN)
    inner, end, _after = rest.partition(END)
    if not begin or (end and BEGIN not in inner):
        return None
    return before.count("\n") + 1


def _torn_words(content):
    line = torn(content)
    if line is None:
        return None
    return f"line {line} begins this role's table, and no line ends it ({END.strip()})"


# what containerd makes of it


def parsed(dump):
    """{(table, key): value's text} of what `containerd config dump` prints."""
    values, table = {}, ""
    for line in dump.splitlines():
        line = line.strip()
        head = re.match(r"\[([^\[\]]*)\]$", line)
        if head is not None:
            table = head.group(1).replace("'", '"')
        elif "=" in line:
            key, _, value = line.partition("=")
            values[table, key.strip()] = value.strip()
    return values


def table(number, runtime):
    """The name of a runtime's table, by the version of the format."""
    return f'plugins."{PLUGINS[number]}".containerd.runtimes.{runtime}'


def option(dump, runtime, key):
    """An option of a runtime, whichever plugin's name it is under; None without one."""
    for number in sorted(PLUGINS):
        value = dump.get((table(number, runtime) + ".options", key))
        if value is not None:
            return value.strip("\"'")
    return None


def program(dump):
    """The program of the runtime nvidia; None without one."""
    return option(dump, "nvidia", "BinaryName") or None


def default(dump):
    """Is nvidia the runtime of those who name none?"""
    values = [value for (_, key), value in dump.items() if key == "default_runtime_name"]
    return any(value.strip("\"'") == "nvidia" for value in values)


def look(context):
    """{"installed", "wanted", "fault", "runtime", "other", "running", "owed", "loses"}.

    `runtime` is the program of the runtime nvidia, `other` is that its cgroups are not runc's,
    `loses` why a restart that is due would end containers. Only what is wanted is asked of
    containerd.
    """
    found = {"installed": installed(context), "wanted": wanted(context), "fault": None}
    found.update(runtime=None, other=False, running=False, owed=False, loses=None)
    if not found["wanted"]:
        return found
    content = context.read(CONFIG)
    if disabled(content):
        found["fault"] = "disabled_plugins switches CRI off"
        return found
    found["fault"] = _torn_words(content)
    if found["fault"] is not None:
        return found
    if version(content) not in PLUGINS:
        found["fault"] = f"version {version(content)}; expected 2 or 3"
        return found
    answer = context.run(["timeout", PATIENCE, "containerd", "config", "dump"])
    if answer.rc != 0:
        found["fault"] = "not read by containerd: " + (units.last_line(answer) or "no answer")
        return found
    dump = parsed(answer.out)
    found["runtime"] = program(dump)
    cgroups = [option(dump, runtime, "SystemdCgroup") or "false" for runtime in ("runc", "nvidia")]
    found["other"] = BEGIN in (content or "") and cgroups[0] != cgroups[1]
    if found["runtime"] not in (None, RUNTIME):
        found["fault"] = "a runtime nvidia of somebody else's, by " + found["runtime"]
    found["running"] = context.lstat(SOCKET) is not None
    found["owed"] = context.exists(OWED) and owed(context)
    if restarts(found):
        found["loses"] = losing(context)
    return found


def daemon(context):
    """ "PID START" of the containerd that runs as a unit; None without one."""
    return units.daemon(context, UNIT, "containerd")


def owed(context):
    """Has the containerd that runs now still to be restarted?"""
    return units.restart_due(context, OWED, daemon(context))


def at_work(context):
    """[(namespace, identity)] of the containers whose shims run."""
    return [tuple(path.split("/")[-3:-1]) for path in context.glob(TASKS + "*/*/address")]


def losing(context):
    """Why a restart would end containers; None where they live through it, or none is at work."""
    spaces = [space for space, _identity in at_work(context)]
    if not spaces:
        return None
    if units.shown(context, UNIT, "KillMode") != "process":
        return "KillMode of containerd.service is not process"
    bound = [units.shown(context, UNIT, name) for name in ("BoundBy", "RequiredBy", "ConsistsOf")]
    if "moby" in spaces and "docker.service" in " ".join(bound).split():
        return "docker.service would be restarted with containerd"
    return None


def stale(found):
    """Is the table to be written?"""
    return found["fault"] is not None or found["runtime"] != RUNTIME or found["other"]


def restarts(found):
    """Would a run restart containerd?"""
    return (stale(found) and found["running"]) or found["owed"]


def differ(name, found):
    """The runtime's table, and the restart that makes containerd read it."""
    if not found["wanted"]:
        return []
    changes = []
    if stale(found):
        old = found["fault"] or ("other cgroups than runc's" if found["other"] else None)
        reason = "who speaks CRI finds the runtime by it; all else in the file stays"
        changes.append(change(name, ENTRY, old, RUNTIME, reason))
    if restarts(found):
        reason = "containerd reads its configuration when it starts, and at no other time"
        changes.append(change(name, RESTART, "started before it", "restarted", reason))
    return changes


def users(context):
    """NAMESPACE/IDENTITY of the containers at work that NVIDIA's program started, less docker's."""
    names = []
    for space, identity in at_work(context):
        options = context.read(f"{TASKS}{space}/{identity}/options.json")
        if space != "moby" and NAME in (options or ""):
            names.append(f"{space}/{identity}")
    return names


def parting(context):
    """[[rule, why the toolkit can't be taken from containerd now, the way out]]."""
    content, found = context.read(CONFIG) or "", []
    if not installed(context):
        return found
    started = users(context)
    if started:
        message = "containers of containerd's were started by NVIDIA's program, wished away: {0}"
        hint = "stop them when their users agree; without it nobody could"
        found.append(["containerd-containers", message.format(", ".join(started)), hint])
    if wish(context.options) == "none" or BEGIN not in content:
        return found
    fault = _torn_words(content)
    if fault is not None:
        hint = "put the end back below the table, or take the table and its begin out"
        return [*found, ["containerd-config", "{0}: {1}".format(CONFIG, fault), hint]]
    dump = parsed(context.run(["timeout", PATIENCE, "containerd", "config", "dump"]).out)
    if default(dump):
        message = "{0} names nvidia as its default_runtime_name".format(CONFIG)
        found.append(["containerd-config", message, "take that out first"])
    lost = losing(context) if context.lstat(SOCKET) is not None else None
    if lost is not None:
        message = "containerd would be restarted to forget NVIDIA's runtime, and containers lost: "
        hint = "stop them when their users agree, then run again"
        found.append(["containerd-containers", message + lost, hint])
    return found


def remains(context):
    """What is left of the role's work in containerd's configuration."""
    if wish(context.options) == "none" or BEGIN not in (context.read(CONFIG) or ""):
        return []
    return [[ENTRY, RUNTIME]]
