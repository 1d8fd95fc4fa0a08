"""CRI-O: whether it knows NVIDIA's runtime.

The role manages one drop-in of CRI-O's configuration; the effective configuration is CRI-O's own
output. It loads a runtime only when it starts, whatever its reload shows.
"""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from . import units

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, State

CONFIG = "/etc/crio/crio.conf"
PLACE = "/etc/crio/crio.conf.d"
DROPIN = PLACE + "/99-nvidia.toml"
PROGRAMS = ("/usr/bin/crio", "/usr/local/bin/crio")
RUNTIME = units.RUNTIME
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"
UNIT = "crio.service"
OWED = "/run/provision/crio-restart"
TABLE = "crio.runtime.runtimes."
# Options copied from the default runtime: how containers are monitored and what pods may request.
OPTIONS = (
    *("runtime_root", "monitor_path", "monitor_cgroup", "monitor_exec_cgroup", "monitor_env"),
    *("allowed_annotations", "privileged_without_host_devices", "container_min_memory"),
)
ENTRY = DROPIN
RESTART = "crio daemon"
PATIENCE = "20"
DAEMON = units.Daemon("CRI-O", "crio", UNIT, "/run/crio/crio.sock", OWED)
daemon, owed = DAEMON.process, DAEMON.restart_due
stale, restarts = units.stale, units.restarts
# crio's message where the configured default is the runtime that is not there yet.
WAITS = r'default_runtime set to .?"nvidia.?"'


def wish(options: Options) -> str:
    return options.get("nvidia_container_toolkit_crio") or "auto"


def installed(context: Context) -> bool:
    return any(context.exists(path) for path in PROGRAMS)


def needs_runtime(context: Context) -> bool:
    """Whether CRI-O is to know the runtime."""
    return installed(context) and wish(context.options) != "none"


def ours(content: str | None) -> bool:
    """Whether this role wrote the text."""
    return (content or "").startswith(HEADER)


def parsed(dump: str) -> dict[tuple[str, str], str]:
    """{(table, key): value's text} of the output of `crio config`.

    It comments out CRI-O's defaults (`# default_runtime = "crun"`), and documents each option with
    examples that look alike; lines that are not comments win.
    """
    values: dict[tuple[str, str], str] = {}
    explicit: set[tuple[str, str]] = set()
    table, key, value, plain = "", "", "", False
    for line in dump.splitlines():
        bare = re.sub(r"^\s*#\s?", "", line).strip()
        if not key:
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
        if plain or (table, key) not in explicit:
            values[table, key] = re.sub(r",?\s*\]$", "]", re.sub(r"^\[\s*", "[", value))
        if plain:
            explicit.add((table, key))
        key = ""
    return values


def program(dump: dict[tuple[str, str], str]) -> str | None:
    """Program of the runtime nvidia; None without one."""
    value = dump.get((TABLE + "nvidia", "runtime_path"))
    return None if value is None else value.strip("\"'") or "nvidia"


def default(dump: dict[tuple[str, str], str]) -> str:
    """Name of the default runtime."""
    return dump.get(("crio.runtime", "default_runtime"), "").strip("\"'")


def model(dump: dict[tuple[str, str], str]) -> str | None:
    """Name of the runtime whose options are copied: the default one, else runc or crun."""
    for name in (default(dump), "runc", "crun"):
        if name != "nvidia" and any(at == TABLE + name for at, _key in dump):
            return name
    return None


def look(context: Context) -> dict[str, Any]:
    """{"installed", "wanted", "fault", "runtime", "other", "running", "owed", "loses"}.

    runtime: program of the runtime nvidia. other: whether its options differ from the default
    runtime's. owed: whether a restart is pending. loses: why a restart would end containers.
    """
    state = units.not_asked(installed(context), needs_runtime(context))
    if not state["wanted"]:
        return state
    content = context.read(DROPIN)
    mine = ours(content)
    answer = context.run(["timeout", PATIENCE, "crio", "config"])
    if answer.rc != 0:
        message = units.last_line(answer) or "no answer"
        # A default_runtime of nvidia fails only until the drop-in exists.
        if content is not None or not re.search(WAITS, message):
            state["fault"] = "not read by crio: " + message
        return state
    dump = parsed(answer.out)
    state["runtime"] = program(dump)
    if mine:
        name = model(dump)
        state["other"] = any(
            dump.get((TABLE + name, key), '""') != dump.get((TABLE + "nvidia", key), '""')
            for key in OPTIONS
            if name
        )
    if state["runtime"] is None and content is not None and not mine:
        state["fault"] = DROPIN + " is somebody else's and names no runtime nvidia"
    if state["runtime"] not in (None, RUNTIME) and not (
        mine and state["runtime"] in (content or "")
    ):
        state["fault"] = "a runtime nvidia of somebody else's, by " + state["runtime"]
    DAEMON.finish(context, state, losing)
    return state


def monitors(context: Context) -> list[str]:
    """PIDs of root's conmon processes, one per container."""
    pids = []
    for path in context.glob("/proc/[0-9]*/comm"):
        pid = path.split("/")[-2]
        # A user's podman has its own, and anybody may give a process this name.
        if (context.read(path) or "").strip() == "conmon" and context.is_roots(pid):
            pids.append(pid)
    return pids


def losing(context: Context) -> str | None:
    """Why a restart would end containers; None where they survive it."""
    if units.shown(context, UNIT, "KillMode") == "process":
        return None
    group, held = units.shown(context, UNIT, "ControlGroup"), 0
    for pid in monitors(context) if group else []:
        lines = (context.read(f"/proc/{pid}/cgroup") or "").splitlines()
        held += any(line.split(":", 2)[-1] == group for line in lines)
    if not held:
        return None
    return f"crio.service has no KillMode=process, and conmon runs in its own cgroup ({held})"


def differ(name: str, state: State) -> Changes:
    """Changes to CRI-O: the drop-in, and the restart that loads the runtime."""
    old = state["fault"] or ("other options than the default's" if state["other"] else None)
    return units.cri_changes(
        name,
        state,
        (
            ENTRY,
            old or state["runtime"],
            "pods find the runtime by it; no other file is touched",
        ),
        (
            RESTART,
            "crio makes pods of the runtimes that it found when it started, whatever it reloads",
        ),
    )


def users(context: Context) -> list[str]:
    """Names of CRI-O's running containers that NVIDIA's program started, by their conmon."""
    names = []
    for pid in monitors(context):
        words = (context.read(f"/proc/{pid}/cmdline") or "").split("\0")
        arguments = {word: words[number] for number, word in enumerate(words[:-1], 1)}
        if RUNTIME in (arguments.get("-r"), arguments.get("--runtime")):
            names.append(
                arguments.get("-n") or arguments.get("--name") or arguments.get("-c") or "?"
            )
    return sorted(names)


def removal_blockers(context: Context) -> list[list[str]]:
    """[[rule, message, hint]] of what forbids the toolkit's removal from CRI-O."""
    if not installed(context):
        return []
    reasons = DAEMON.users_in_the_way(users(context))
    if wish(context.options) == "none":
        return reasons
    mine = ours(context.read(DROPIN))
    dump = parsed(context.run(["timeout", PATIENCE, "crio", "config"]).out)
    if default(dump) == "nvidia":
        message = "CRI-O has nvidia as its default_runtime, and would not start without it"
        reasons.append(["crio-config", message, f"take that out of {PLACE} first"])
    elif not mine and program(dump) == RUNTIME:
        message = f"a file of somebody's below /etc/crio names {RUNTIME}, which goes"
        reasons.append(["crio-config", message, "take its runtime nvidia out first"])
    lost = losing(context) if mine and context.lstat(DAEMON.socket) is not None else None
    return reasons + DAEMON.restart_in_the_way(lost)


def remains(context: Context) -> list[list[str]]:
    """[[item, value]] of the role's drop-in."""
    if wish(context.options) == "none" or not ours(context.read(DROPIN)):
        return []
    return [[ENTRY, RUNTIME]]
