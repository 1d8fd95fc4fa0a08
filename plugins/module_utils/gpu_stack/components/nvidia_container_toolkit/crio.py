"""CRI-O's runtimes: whether pods find NVIDIA's under its name.

Of CRI-O's configuration one drop-in is the role's; what CRI-O makes of all its files it is asked
itself. It learns of a runtime only when it starts, whatever its reload shows.
"""

import re

from ...change import change
from . import units

CONFIG = "/etc/crio/crio.conf"
PLACE = "/etc/crio/crio.conf.d"
DROPIN = PLACE + "/99-nvidia.toml"
PROGRAMS = ("/usr/bin/crio", "/usr/local/bin/crio")
RUNTIME = "/usr/bin/nvidia-container-runtime"
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"
UNIT = "crio.service"
OWED = "/run/provision/crio-restart"
SOCKET = "/run/crio/crio.sock"
TABLE = "crio.runtime.runtimes."
# Of the default runtime's, what concerns how a container is watched and what a pod may ask for.
OPTIONS = (
    *("runtime_root", "monitor_path", "monitor_cgroup", "monitor_exec_cgroup", "monitor_env"),
    *("allowed_annotations", "privileged_without_host_devices", "container_min_memory"),
)
ENTRY = DROPIN
RESTART = "crio daemon"
PATIENCE = "20"
# What crio says where somebody's default is the runtime that is to come.
WAITS = r'default_runtime set to .?"nvidia.?"'


def wish(options):
    return options.get("nvidia_container_toolkit_crio") or "auto"


def installed(context):
    return any(context.exists(path) for path in PROGRAMS)


def wanted(context):
    """Is CRI-O to know the runtime?"""
    return installed(context) and wish(context.options) != "none"


def ours(content):
    """Did this role write the text?"""
    return (content or "").startswith(HEADER)


def parsed(dump):
    """{(table, key): value's text} of what `crio config` prints.

    It comments out what is CRI-O's own default (`# default_runtime = "crun"`), and explains each
    option with examples that look alike; what stands without the sign wins.
    """
    found, said = {}, set()
    table, key, value, plain = "", None, "", False
    for line in dump.splitlines():
        bare = re.sub(r"^\s*#\s?", "", line).strip()
        if key is None:
            head = re.match(r"\[([^\[\]]+)\]$", bare)
            if head is not None:
                table = head.group(1).strip().replace('"', "")
                continue
            pair = re.match(r"([A-Za-z_]+)\s*=\s*(\S.*)$", bare)
            if pair is None:
                continue
            key, value, plain = pair.group(1), pair.group(2), not line.lstrip().startswith("#")
        else:
            value += " " + bare
        # A list has a line for each of its values.
        if value.startswith("[") and not value.endswith("]") and bare:
            continue
        if plain or (table, key) not in said:
            found[table, key] = re.sub(r",?\s*\]$", "]", re.sub(r"^\[\s*", "[", value))
        if plain:
            said.add((table, key))
        key = None
    return found


def program(dump):
    """The program of the runtime nvidia; None without one."""
    value = dump.get((TABLE + "nvidia", "runtime_path"))
    return None if value is None else value.strip("\"'") or "nvidia"


def default(dump):
    """The runtime of those who name none."""
    return dump.get(("crio.runtime", "default_runtime"), "").strip("\"'")


def model(dump):
    """The runtime whose options NVIDIA's has: the default one, or else runc or crun."""
    for name in (default(dump), "runc", "crun"):
        if name != "nvidia" and any(at == TABLE + name for at, _ in dump):
            return name
    return None


def look(context):
    """{"installed", "wanted", "fault", "runtime", "other", "running", "owed", "loses"}.

    `runtime` is the program of the runtime nvidia, `other` is that its options are not the default
    runtime's, `loses` why a restart that is due would end containers.
    """
    found = {"installed": installed(context), "wanted": wanted(context), "fault": None}
    found.update(runtime=None, other=False, running=False, owed=False, loses=None)
    if not found["wanted"]:
        return found
    content = context.read(DROPIN)
    mine = ours(content)
    answer = context.run(["timeout", PATIENCE, "crio", "config"])
    if answer.rc != 0:
        said = units.last_line(answer) or "no answer"
        # Somebody's default waits for the very table that is to come.
        if content is not None or not re.search(WAITS, said):
            found["fault"] = "not read by crio: " + said
        return found
    dump = parsed(answer.out)
    found["runtime"] = program(dump)
    if mine:
        name = model(dump)
        found["other"] = any(
            dump.get((TABLE + name, key), '""') != dump.get((TABLE + "nvidia", key), '""')
            for key in OPTIONS
            if name
        )
    if found["runtime"] is None and content is not None and not mine:
        found["fault"] = DROPIN + " is somebody else's and names no runtime nvidia"
    if found["runtime"] not in (None, RUNTIME) and not (mine and found["runtime"] in content):
        found["fault"] = "a runtime nvidia of somebody else's, by " + found["runtime"]
    found["running"] = context.lstat(SOCKET) is not None
    found["owed"] = context.exists(OWED) and owed(context)
    if restarts(found):
        found["loses"] = losing(context)
    return found


def daemon(context):
    """ "PID START" of the crio that runs as a unit; None without one."""
    return units.daemon(context, UNIT, "crio")


def owed(context):
    """Has the crio that runs now still to be restarted?"""
    return units.restart_due(context, OWED, daemon(context))


def monitors(context):
    """The pids of root's conmon processes, of which each container has one."""
    pids = []
    for path in context.glob("/proc/[0-9]*/comm"):
        pid = path.split("/")[-2]
        # podman of a user has its own, and anybody may call a process that
        if (context.read(path) or "").strip() == "conmon" and context.is_roots(pid):
            pids.append(pid)
    return pids


def losing(context):
    """Why a restart would end containers; None where they live through it."""
    if units.shown(context, UNIT, "KillMode") == "process":
        return None
    group, held = units.shown(context, UNIT, "ControlGroup"), 0
    for pid in monitors(context) if group else []:
        lines = (context.read(f"/proc/{pid}/cgroup") or "").splitlines()
        held += any(line.split(":", 2)[-1] == group for line in lines)
    if not held:
        return None
    return f"crio.service has no KillMode=process, and conmon runs in its own cgroup ({held})"


def stale(found):
    """Is the drop-in to be written?"""
    return found["fault"] is not None or found["runtime"] != RUNTIME or found["other"]


def restarts(found):
    """Would a run restart CRI-O?"""
    return found["wanted"] and ((stale(found) and found["running"]) or found["owed"])


def differ(name, found):
    """The drop-in, and the restart that makes CRI-O know the runtime."""
    if not found["wanted"]:
        return []
    changes = []
    if stale(found):
        old = found["fault"] or ("other options than the default's" if found["other"] else None)
        reason = "pods find the runtime by it; no other file is touched"
        changes.append(change(name, ENTRY, old or found["runtime"], RUNTIME, reason))
    if restarts(found):
        reason = (
            "crio makes pods of the runtimes that it found when it started, whatever it reloads"
        )
        changes.append(change(name, RESTART, "started before it", "restarted", reason))
    return changes


def users(context):
    """Names of CRI-O's containers at work that NVIDIA's program started, as their conmon has it."""
    names = []
    for pid in monitors(context):
        words = (context.read(f"/proc/{pid}/cmdline") or "").split("\0")
        given = {word: words[number] for number, word in enumerate(words[:-1], 1)}
        if RUNTIME in (given.get("-r"), given.get("--runtime")):
            names.append(given.get("-n") or given.get("--name") or given.get("-c") or "?")
    return sorted(names)


def parting(context):
    """[[rule, why the toolkit can't be taken from CRI-O now, the way out]]."""
    found = []
    if not installed(context):
        return found
    started = users(context)
    if started:
        message = "containers of CRI-O's were started by NVIDIA's program, wished away: {0}"
        hint = "stop them when their users agree; without it nobody could"
        found.append(["crio-containers", message.format(", ".join(started)), hint])
    if wish(context.options) == "none":
        return found
    mine = ours(context.read(DROPIN))
    dump = parsed(context.run(["timeout", PATIENCE, "crio", "config"]).out)
    if default(dump) == "nvidia":
        message = "CRI-O has nvidia as its default_runtime, and would not start without it"
        found.append(["crio-config", message, "take that out of {0} first".format(PLACE)])
    elif not mine and program(dump) == RUNTIME:
        message = "a file of somebody's below /etc/crio names {0}, which goes".format(RUNTIME)
        found.append(["crio-config", message, "take its runtime nvidia out first"])
    lost = losing(context) if mine and context.lstat(SOCKET) is not None else None
    if lost is not None:
        message = "CRI-O would be restarted to forget NVIDIA's runtime, and containers lost: "
        hint = "stop them when their users agree, then run again"
        found.append(["crio-containers", message + lost, hint])
    return found


def remains(context):
    """What is left of the role's work in CRI-O's configuration."""
    if wish(context.options) == "none" or not ours(context.read(DROPIN)):
        return []
    return [[ENTRY, RUNTIME]]
