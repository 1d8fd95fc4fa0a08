"""docker: whether it knows NVIDIA's runtime, and whether it found the hook when it started.

A docker that was started before the hook was installed has no driver for `--gpus`. daemon.json is
the administrator's: of it one entry is looked at, and a file that docker could not read is told
and left alone.
"""

import json

from ...change import change
from ...host import other_sources
from ...host.kept_names import SAVED
from ..cuda import nvidia_cuda
from . import units

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
# Packages of the distribution's that Docker's conflict with (its debian/control), or that own its
# programs' names: https://docs.docker.com/engine/install/debian/#uninstall-old-versions
OTHERS = ("containerd", "docker.io", "podman-docker", "runc")
ENTRY = CONFIG + " runtimes.nvidia"
# Its package brings the hook.
TOOLKIT = "nvidia-container-toolkit"
# A docker that does not answer must not hold the look for ever.
PATIENCE = "30"


def wish(options):
    return options.get("nvidia_container_toolkit_docker") or "auto"


def engine(options):
    """The package that brings docker itself; None where what is there is used."""
    source = options.get("nvidia_container_toolkit_docker_engine")
    return None if wish(options) == "none" else ENGINES.get(source)


def installs(seen, options):
    """Is docker itself to be installed? `seen` is what the look found of it."""
    return engine(options) is not None and not seen["installed"]


def missing(seen, options):
    """Is docker required, and neither there nor to come? `seen` is what the look found of it."""
    if wish(options) != "required" or seen["installed"]:
        return False
    return seen["snap"] or not installs(seen, options)


def others(context):
    """Installed packages that Docker's own would replace; none where that is here already."""
    here = context.packages
    return [] if "docker-ce" in here else [name for name in OTHERS if name in here]


def in_place(others, options):
    """Those of `others` that stand in the way: all, where Docker's own is wished for."""
    return others if engine(options) == ENGINES["docker-ce"] else []


def running(context):
    """ "PID START" of the dockerd that runs; None without one."""
    return units.process(context, context.read(PIDFILE), "dockerd")


def parsed(text):
    """(daemon.json as a dict, why docker could not use it) of its text; one of them is None."""
    if text is None or not text.strip():
        return {}, None
    try:
        config = json.loads(text)
    except ValueError as error:
        return None, f"not JSON: {error}"
    if not isinstance(config, dict) or not isinstance(config.get("runtimes", {}), dict):
        return None, "no mapping, or its runtimes are none"
    return config, None


def program(config):
    """The program of the runtime nvidia, without a directory of the system's; None without one."""
    entry = (config or {}).get("runtimes", {}).get("nvidia")
    path = str(entry.get("path") or "") if isinstance(entry, dict) else ""
    return RUNTIME if path == "/usr/bin/" + RUNTIME else path or None


def look(context):
    """{"installed", "snap", "running", "owed", "runtime", "fault"}."""
    now = running(context)
    config, fault = parsed(context.read(CONFIG))
    return {
        "installed": any(context.exists(path) for path in PROGRAMS),
        "snap": context.lstat(SNAP) is not None,
        "running": now is not None,
        "owed": units.restart_due(context, OWED, now),
        "runtime": program(config),
        "fault": fault,
    }


# what docker says


def ask(context, *arguments):
    """What the docker of this host answers; "" where it does not."""
    answer = context.run(["timeout", PATIENCE, "docker", "--host", SOCKET, *arguments])
    return answer.out if answer.rc == 0 else ""


def containers(context):
    """{"count", "live_restore"} of the docker that runs; {"count": None} where it does not answer.

    A container that is paused is lost as one that runs.
    """
    shape = "{{.ContainersRunning}} {{.ContainersPaused}} {{.LiveRestoreEnabled}}"
    words = ask(context, "info", "--format", shape).split()
    if len(words) != 3 or not words[0].isdigit() or not words[1].isdigit():
        return {"count": None, "live_restore": False}
    return {"count": int(words[0]) + int(words[1]), "live_restore": words[2] == "true"}


def loses(seen):
    """Would a restart end containers, or can't that be known? `seen` is what `containers` said."""
    return seen["count"] is None or (seen["count"] > 0 and not seen["live_restore"])


def users(context):
    """Names of the containers at work that were given GPUs by the toolkit; None where unknown."""
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


def _asks_for_gpus(text):
    """Does a container's list of device requests (docker's JSON) name GPUs? `--gpus` does."""
    try:
        requests = json.loads(text) or []
    except ValueError:
        return False
    for request in requests:
        words = [word for group in request.get("Capabilities") or [] for word in group]
        if request.get("Driver") == "nvidia" or "gpu" in words:
            return True
    return False


def parting(context):
    """What may stand in the way of taking the toolkit away: {"users", "default", "fault"}."""
    config, fault = parsed(context.read(CONFIG))
    return {
        "users": users(context),
        "default": (config or {}).get("default-runtime") == "nvidia",
        "fault": None if wish(context.options) == "none" else fault,
    }


def remains(context):
    """What is left of the role's work in docker's configuration."""
    config, _fault = parsed(context.read(CONFIG))
    if wish(context.options) == "none" or program(config) != RUNTIME:
        return []
    return [[ENTRY, RUNTIME]]


# the differences


def _engine_changes(name, stale, package):
    """Docker itself, and for Docker's own what makes apt go to its repository."""
    changes = []
    if package == ENGINES["docker-ce"]:
        for path in stale:
            reason = f"names Docker's repository beside ours; kept as {path}{SAVED}"
            changes.append(change(name, path, "in apt's way", nvidia_cuda.ASIDE, reason))
        reason = "apt takes docker-ce and its updates from there"
        changes.append(change(name, ENGINE_SOURCES, None, "as wished", reason))
    reason = "containers need a docker, and there is none"
    return [*changes, change(name, package, None, "installed", reason)]


def differ(name, found, options):
    """Docker itself, the runtime's entry, and the restart that makes docker see it.

    `found` is what the look found of the whole toolkit.
    """
    seen = found["docker"]
    changes = []
    if installs(seen, options):
        changes.extend(_engine_changes(name, found["engine"]["stale"], engine(options)))
    elif wish(options) == "none" or not seen["installed"]:
        return []
    if seen["fault"] is not None or seen["runtime"] != RUNTIME:
        old = seen["fault"] or seen["runtime"]
        reason = "docker gives GPUs to containers by it; all else in the file stays"
        changes.append(change(name, ENTRY, old, RUNTIME, reason))
    new = TOOLKIT not in found["packages"]
    if seen["running"] and (changes or new or seen["owed"]):
        reason = "docker looks for the runtime and its hook when it starts, and at no other time"
        changes.append(change(name, RESTART, "started before them", "restarted", reason))
    return changes
