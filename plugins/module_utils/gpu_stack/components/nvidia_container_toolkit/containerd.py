"""containerd's runtimes: whether those who make containers by CRI find NVIDIA's under its name.

containerd that merely serves docker needs nothing of it, so it is looked at only where somebody
speaks CRI. What containerd makes of its files is asked of itself: config.toml may import others.

The role's files/containerd.py judges in the same way; a test gives both the same texts.
"""

import re

from ...change import change

CONFIG = "/etc/containerd/config.toml"
PROGRAMS = ("/usr/bin/containerd", "/usr/local/bin/containerd")
USERS = ("kubelet", "crictl", "nerdctl")
PLACES = ("/usr/bin/", "/usr/local/bin/", "/usr/sbin/")
RUNTIME = "/usr/bin/nvidia-container-runtime"
NAME = "nvidia-container-runtime"
BEGIN = "# Begin of what the Ansible role nvidia_container_toolkit wrote; changes here are lost.\n"
END = "# End of what the Ansible role nvidia_container_toolkit wrote.\n"
OWED = "/run/provision/containerd-restart"
SOCKET = "/run/containerd/containerd.sock"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/"
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
ENTRY = CONFIG + " runtimes.nvidia"
RESTART = "containerd daemon"
PATIENCE = "20"


def wish(options):
    return options.get("nvidia_container_toolkit_containerd") or "auto"


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
    """Why the role's block can't be told from what is somebody else's; None where it can."""
    if content and not content.endswith("\n"):
        content += "\n"
    before, begin, rest = (content or "").partition(BEGIN)
    inner, end, _after = rest.partition(END)
    if not begin or (end and BEGIN not in inner):
        return None
    return "line {0} begins this role's table, and no line ends it ({1})".format(
        before.count("\n") + 1, END.strip()
    )


def parsed(dump):
    """{(table, key): value's text} of what `containerd config dump` prints."""
    found, table = {}, ""
    for line in dump.splitlines():
        line = line.strip()
        head = re.match(r"\[([^\[\]]*)\]$", line)
        if head is not None:
            table = head.group(1).replace("'", '"')
        elif "=" in line:
            key, _, value = line.partition("=")
            found[table, key.strip()] = value.strip().strip("\"'")
    return found


def _option(dump, runtime, key):
    """An option of a runtime, whichever plugin's name it is under; None without one."""
    for number in sorted(PLUGINS):
        head = 'plugins."{0}".containerd.runtimes.{1}.options'.format(PLUGINS[number], runtime)
        if (head, key) in dump:
            return dump[head, key]
    return None


def look(context):
    """{"installed", "wanted", "fault", "runtime", "other", "running", "owed", "loses"}.

    `runtime` is the program of the runtime nvidia, `other` is that its cgroups are not runc's,
    `loses` why a restart that is due would end containers. Only what is wanted is asked of
    containerd.
    """
    installed = any(context.exists(path) for path in PROGRAMS)
    used = any(context.exists(place + name) for place in PLACES for name in USERS)
    found = {"installed": installed, "wanted": False, "fault": None, "runtime": None}
    found.update(other=False, running=False, owed=False, loses=None)
    said = wish(context.options)
    if not installed or said == "none" or (said == "auto" and not used):
        return found
    content = context.read(CONFIG)
    if disabled(content):
        if said == "required":
            found.update(wanted=True, fault="disabled_plugins switches CRI off")
        return found
    found["wanted"] = True
    found["fault"] = torn(content)
    if found["fault"] is not None:
        return found
    if version(content) not in PLUGINS:
        found["fault"] = "version {0}; expected 2 or 3".format(version(content))
        return found
    answer = context.run(["timeout", PATIENCE, "containerd", "config", "dump"])
    if answer.rc != 0:
        lines = [line for line in (answer.err or answer.out).splitlines() if line.strip()]
        found["fault"] = "not read by containerd: " + (lines[-1].strip() if lines else "no answer")
        return found
    dump = parsed(answer.out)
    found["runtime"] = _option(dump, "nvidia", "BinaryName") or None
    cgroups = [_option(dump, one, "SystemdCgroup") or "false" for one in ("runc", "nvidia")]
    found["other"] = BEGIN in (content or "") and cgroups[0] != cgroups[1]
    if found["runtime"] not in (None, RUNTIME):
        found["fault"] = "a runtime nvidia of somebody else's, by " + found["runtime"]
    found["running"] = context.lstat(SOCKET) is not None
    note = (context.read(OWED) or "").split()
    if len(note) == 2 and note[0].isdigit():
        stat = context.read("/proc/{0}/stat".format(note[0])) or ""
        # The name stands in brackets and may hold blanks; the start is the 22nd field (proc(5)).
        found["owed"] = stat.rpartition(")")[2].split()[19:20] == note[1:]
    if restarts(found):
        found["loses"] = losing(context)
    return found


def losing(context):
    """Why a restart would end containers; None where they live through it, or none is at work."""
    spaces = [path.split("/")[-3] for path in context.glob(TASKS + "*/*/address")]
    if not spaces:
        return None
    said = {}
    for name in ("KillMode", "BoundBy", "RequiredBy", "ConsistsOf"):
        words = ["systemctl", "show", "containerd.service", "--property", name, "--value"]
        said[name] = context.run(words).out.split()
    if said.pop("KillMode") != ["process"]:
        return "KillMode of containerd.service is not process"
    if "moby" in spaces and any("docker.service" in units for units in said.values()):
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
    found = []
    for path in context.glob(TASKS + "*/*/options.json"):
        space, identity = path.split("/")[-3:-1]
        there = context.exists(path.replace("options.json", "address"))
        if there and space != "moby" and NAME in (context.read(path) or ""):
            found.append("{0}/{1}".format(space, identity))
    return sorted(found)


def parting(context):
    """[[rule, why the toolkit can't be taken from containerd now, the way out]]."""
    content, found = context.read(CONFIG) or "", []
    if not any(context.exists(path) for path in PROGRAMS):
        return found
    at_work = users(context)
    if at_work:
        message = "containers of containerd's were started by NVIDIA's program, wished away: {0}"
        hint = "stop them when their users agree; without it nobody could"
        found.append(["containerd-containers", message.format(", ".join(at_work)), hint])
    if wish(context.options) == "none" or BEGIN not in content:
        return found
    fault = torn(content)
    if fault is not None:
        hint = "put the end back below the table, or take the table and its begin out"
        return [*found, ["containerd-config", "{0}: {1}".format(CONFIG, fault), hint]]
    dump = parsed(context.run(["timeout", PATIENCE, "containerd", "config", "dump"]).out)
    if any(key == "default_runtime_name" and dump[at, key] == "nvidia" for at, key in dump):
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
