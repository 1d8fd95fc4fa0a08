"""docker: whether it knows NVIDIA's runtime, and was started after the hook was installed.

A docker that was started before the hook was installed has no driver for `--gpus`. daemon.json is
the administrator's: only one entry of it is managed, and a file that docker could not read is
reported and left alone.
"""

from __future__ import annotations

import json

from ...change import change
from ...host import other_sources
from ...host.kept_names import SAVED
from ...type_checking import TYPE_CHECKING
from . import units

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, State

CONFIG = "/etc/docker/daemon.json"
PROGRAMS = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
SNAP = "/snap/bin/docker"
PIDFILE = "/run/docker.pid"
SOCKET = "unix:///var/run/docker.sock"
OWED = "/run/provision/docker-restart"
RUNTIME = "nvidia-container-runtime"
RESTART = "docker daemon"
ENGINES = {"distribution": "docker.io", "docker-ce": "docker-ce"}
ENGINE_SOURCES = other_sources.REPOSITORIES["docker"].own
# The distribution's packages that conflict with Docker's (its debian/control), or own its programs'
# names: https://docs.docker.com/engine/install/debian/#uninstall-old-versions
OTHERS = ("containerd", "docker.io", "podman-docker", "runc")
ENTRY = CONFIG + " runtimes.nvidia"
# Its package brings the hook.
TOOLKIT = "nvidia-container-toolkit"
# Seconds, so that a docker that does not answer can't block the look.
PATIENCE = "30"


def wish(options: Options) -> str:
    return options.get("nvidia_container_toolkit_docker") or "auto"


def engine(options: Options) -> str | None:
    """The package that installs docker itself; None where an existing docker is used."""
    source = options.get("nvidia_container_toolkit_docker_engine")
    return None if wish(options) == "none" else ENGINES.get(source or "")


def installs(state: State, options: Options) -> bool:
    """Whether docker itself is to be installed; `state` is of `look`."""
    return engine(options) is not None and not state["installed"]


def missing(state: State, options: Options) -> bool:
    """Whether docker is required, but neither installed nor to be installed."""
    if wish(options) != "required" or state["installed"]:
        return False
    return state["snap"] or not installs(state, options)


def others(context: Context) -> list[str]:
    """Installed packages that Docker's own would replace; none if that is installed."""
    packages = context.packages
    return [] if "docker-ce" in packages else [name for name in OTHERS if name in packages]


def in_place(others: list[str], options: Options) -> list[str]:
    """Those of `others` that are in the way: all, if Docker's own is to be installed."""
    return others if engine(options) == ENGINES["docker-ce"] else []


def running(context: Context) -> str | None:
    """Returns "PID START" of the running dockerd; None without one."""
    return units.process(context, context.read(PIDFILE), "dockerd")


def parsed(text: str | None) -> tuple[dict[str, Any] | None, str | None]:
    """(daemon.json as a dict, why docker can't use it); one of them is None."""
    if text is None or not text.strip():
        return {}, None
    try:
        config = json.loads(text)
    except ValueError as error:
        return None, f"not JSON: {error}"
    if not isinstance(config, dict) or not isinstance(config.get("runtimes", {}), dict):
        return None, "not a mapping, or its runtimes are not one"
    return config, None


def program(config: dict[str, Any] | None) -> str | None:
    """Program of the runtime nvidia, by its name if it is in /usr/bin; None without one."""
    entry = (config or {}).get("runtimes", {}).get("nvidia")
    path = str(entry.get("path") or "") if isinstance(entry, dict) else ""
    return RUNTIME if path == "/usr/bin/" + RUNTIME else path or None


def look(context: Context) -> dict[str, Any]:
    """{"installed", "snap", "running", "owed", "runtime", "fault"}."""
    process = running(context)
    config, fault = parsed(context.read(CONFIG))
    return {
        "installed": any(context.exists(path) for path in PROGRAMS),
        "snap": context.lstat(SNAP) is not None,
        "running": process is not None,
        "owed": units.restart_due(context, OWED, process),
        "runtime": program(config),
        "fault": fault,
    }


# docker's answers


def ask(context: Context, *arguments: str) -> str:
    """Output of the docker client; "" on failure."""
    result = context.run(["timeout", PATIENCE, "docker", "--host", SOCKET, *arguments])
    return str(result.out) if result.rc == 0 else ""


def containers(context: Context) -> dict[str, Any]:
    """{"count", "live_restore"} of the running docker; "count" is None if it does not answer.

    Paused containers count, as a restart ends them too.
    """
    shape = "{{.ContainersRunning}} {{.ContainersPaused}} {{.LiveRestoreEnabled}}"
    words = ask(context, "info", "--format", shape).split()
    if len(words) != 3 or not words[0].isdigit() or not words[1].isdigit():
        return {"count": None, "live_restore": False}
    return {"count": int(words[0]) + int(words[1]), "live_restore": words[2] == "true"}


def loses(state: State) -> bool:
    """Whether a restart would, or might, end containers; `state` is of `containers`."""
    count = state["count"]
    return count is None or bool(count > 0 and not state["live_restore"])


def users(context: Context) -> list[str] | None:
    """Names of the running containers with GPUs from the toolkit; None where unknown."""
    if running(context) is None:
        return []
    if containers(context)["count"] is None:
        return None
    shape = "{{.Name}} {{.HostConfig.Runtime}} {{json .HostConfig.DeviceRequests}}"
    names = []
    for identity in ask(context, "ps", "--quiet", "--no-trunc").split():
        # One that has ended meanwhile makes docker fail.
        words = ask(context, "inspect", "--format", shape, identity).strip().split(" ", 2)
        if len(words) == 3 and (words[1] == "nvidia" or _asks_for_gpus(words[2])):
            names.append(words[0].lstrip("/"))
    return sorted(names)


def _asks_for_gpus(text: str) -> bool:
    """Whether a container's device requests (docker's JSON) name GPUs, as with `--gpus`."""
    try:
        requests = json.loads(text) or []
    except ValueError:
        return False
    for request in requests:
        words = [word for group in request.get("Capabilities") or [] for word in group]
        if request.get("Driver") == "nvidia" or "gpu" in words:
            return True
    return False


def removal_state(context: Context) -> dict[str, Any]:
    """What may forbid the toolkit's removal: {"users", "default", "fault"}."""
    config, fault = parsed(context.read(CONFIG))
    return {
        "users": users(context),
        "default": (config or {}).get("default-runtime") == "nvidia",
        "fault": None if wish(context.options) == "none" else fault,
    }


def remains(context: Context) -> list[list[str]]:
    """[[item, value]] of the role's entry in docker's configuration."""
    config, _fault = parsed(context.read(CONFIG))
    if wish(context.options) == "none" or program(config) != RUNTIME:
        return []
    return [[ENTRY, RUNTIME]]


# the differences


def _engine_changes(name: str, stale: list[str], package: str) -> Changes:
    """Changes that install docker, and the source of Docker's own packages."""
    changes = []
    if package == ENGINES["docker-ce"]:
        for path in stale:
            reason = f"names Docker's repository beside ours; kept as {path}{SAVED}"
            changes.append(change(name, path, "in apt's way", other_sources.ASIDE, reason))
        reason = "apt takes docker-ce and its updates from there"
        changes.append(change(name, ENGINE_SOURCES, None, "as wished", reason))
    reason = "containers need a docker, and there is none"
    return [*changes, change(name, package, None, "installed", reason)]


def differ(name: str, state: State, options: Options) -> Changes:
    """Changes to docker: its package, the runtime's entry, and the restart that loads it.

    state: of the whole toolkit.
    """
    docker = state["docker"]
    changes = []
    if installs(docker, options):
        changes.extend(_engine_changes(name, state["engine"]["stale"], engine(options) or ""))
    elif wish(options) == "none" or not docker["installed"]:
        return []
    if docker["fault"] is not None or docker["runtime"] != RUNTIME:
        old = docker["fault"] or docker["runtime"]
        reason = "docker gives GPUs to containers by it; all else in the file stays"
        changes.append(change(name, ENTRY, old, RUNTIME, reason))
    new = TOOLKIT not in state["packages"]
    if docker["running"] and (changes or new or docker["owed"]):
        reason = "docker looks for the runtime and its hook when it starts, and at no other time"
        changes.append(change(name, RESTART, "started before them", "restarted", reason))
    return changes
