"""NVIDIA's container toolkit: exact packages, their source, and docker that knows the runtime.

A list of yesterday makes apt refuse all work, an upgrade of one of the four packages breaks the
others, and a docker that was started before the hook was installed has no driver for `--gpus`.
daemon.json is the administrator's: of it one entry is looked at, and a file that docker could not
read is told and left alone. The role's templates are the files' home; `files` says the same text,
and a test renders both.
"""

import json

from ...change import change
from ...host import apt, dpkg, file_state, logins, other_sources, package_files
from ..cuda import nvidia_cuda
from . import cdi, containerd, crio

NAME = "nvidia_container_toolkit"
TITLE = "nvidia-container-toolkit"
KEY = "/usr/share/keyrings/provision-nvidia-container-toolkit.asc"
SOURCES = other_sources.REPOSITORIES["container_toolkit"].own
PREFERENCES = "/etc/apt/preferences.d/provision-nvidia-container-toolkit"
APT = "/etc/apt/apt.conf.d/90provision-nvidia-container-toolkit"
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"

CONFIG = "/etc/docker/daemon.json"
DOCKERDS = ("/usr/bin/dockerd", "/usr/sbin/dockerd")
SNAP = "/snap/bin/docker"
PIDFILE = "/run/docker.pid"
SOCKET = "unix:///var/run/docker.sock"
OWED = "/run/provision/docker-restart"
RUNTIME = "nvidia-container-runtime"
RESTART = "docker daemon"
ENGINES = {"distribution": "docker.io", "docker-ce": "docker-ce"}
ENGINE_SOURCES = other_sources.REPOSITORIES["docker"].own
# What apt would remove for Docker's own packages.
OTHERS = ("containerd", "docker.io", "podman-docker", "runc")
ENTRY = CONFIG + " runtimes.nvidia"
# A docker that does not answer must not hold the look for ever.
PATIENCE = "20"


def wanted(row):
    """{package: exact version}."""
    return (row.get("packages") or {}).get("toolkit") or {}


def docker_wish(options):
    return options.get("nvidia_container_toolkit_docker") or "auto"


def engine(options):
    """The package that brings docker itself; None where what is there is used."""
    wish = options.get("nvidia_container_toolkit_docker_engine")
    return None if docker_wish(options) == "none" else ENGINES.get(wish)


def installs(seen, options):
    """Is docker itself to be installed? `seen` is what the look found of it."""
    return engine(options) is not None and not seen["installed"]


def in_place(found, options):
    """Packages that apt would remove for Docker's own, where those are wished for."""
    return found["engine"]["others"] if engine(options) == ENGINES["docker-ce"] else []


def url(row, options):
    """Where apt takes the packages from."""
    mirror = options.get("nvidia_container_toolkit_repository_url")
    # apt is given the password in a file of its own.
    return apt.bare(mirror or (row.get("repository") or {}).get("url") or "").rstrip("/")


def _sources(row, options):
    return HEADER + "Types: deb\nURIs: {0}\nSuites: {1}\nSigned-By: {2}\n".format(
        url(row, options), (row.get("repository") or {}).get("suite") or "/", KEY
    )


def _preferences(row):
    text = HEADER + (
        "# These versions and no others: a priority above 1000 also undoes an accidental upgrade.\n"
    )
    for name in sorted(wanted(row)):
        text += "\nPackage: {0}\nPin: version {1}\nPin-Priority: 1001\n".format(
            name, wanted(row)[name]
        )
    return text


def _apt(row, options):
    text = HEADER + 'Dir::Ignore-Files-Silently:: "\\.provision-saved(\\.[0-9]+)?$";\n'
    bundle = options.get("nvidia_container_toolkit_ca_bundle")
    if bundle:
        host = nvidia_cuda.host_of(url(row, options))
        text += 'Acquire::https::{0}::CaInfo "{1}";\n'.format(host, bundle)
    return text


def files(row, options):
    """{path: text} of what the role writes whole."""
    return {
        KEY: ((row.get("repository") or {}).get("key") or "").strip() + "\n",
        SOURCES: _sources(row, options),
        PREFERENCES: _preferences(row),
        APT: _apt(row, options),
    }


# the look


def running(context):
    """ "PID START" of the dockerd that runs, as the role notes it; None without one."""
    pid = (context.read(PIDFILE) or "").strip()
    text = context.read("/proc/{0}/stat".format(pid)) if pid.isdigit() else None
    # The name stands in brackets and may hold blanks; the start is the 22nd field (proc(5)).
    if text is None or "(dockerd)" not in text:
        return None
    return "{0} {1}".format(pid, text.rpartition(")")[2].split()[19])


def configured(text):
    """(the program of the runtime nvidia, why daemon.json can't be used) of daemon.json's text."""
    if text is None or not text.strip():
        return None, None
    try:
        found = json.loads(text)
    except ValueError as error:
        return None, "not JSON: {0}".format(error)
    if not isinstance(found, dict) or not isinstance(found.get("runtimes", {}), dict):
        return None, "no mapping, or its runtimes are none"
    entry = found.get("runtimes", {}).get("nvidia")
    path = str(entry.get("path") or "") if isinstance(entry, dict) else ""
    return (RUNTIME if path == "/usr/bin/" + RUNTIME else path or None), None


def _engine_url(options):
    """Docker's repository as the inventory names it; "" for Docker's own place."""
    given = options.get("nvidia_container_toolkit_docker_repository") or {}
    return apt.bare(str(given.get("url") or "")).rstrip("/")


def _others(context):
    """Installed packages that Docker's own would replace; none where that is here already."""
    here = context.packages
    return [] if "docker-ce" in here else [name for name in OTHERS if name in here]


def engine_look(context):
    """{"others", "stale"}: what would go for Docker's own packages, and their other sources."""
    return {
        "others": _others(context),
        "stale": other_sources.stale_files(context, "docker", _engine_url(context.options)),
    }


def docker(context):
    """{"installed", "snap", "running", "owed", "runtime", "fault"}."""
    now = running(context)
    runtime, fault = configured(context.read(CONFIG))
    return {
        "installed": any(context.exists(path) for path in DOCKERDS),
        "snap": context.lstat(SNAP) is not None,
        "running": now is not None,
        "owed": now is not None and (context.read(OWED) or "").strip() == now,
        "runtime": runtime,
        "fault": fault,
    }


def _logins(options):
    """{name of the file: address} of the mirror that apt may have to log in to."""
    mirror = options.get("nvidia_container_toolkit_repository_url") or ""
    return {"provision-nvidia-container-toolkit": mirror.rstrip("/")}


def look(context):
    """{version, packages, files, written, stale, flaws, docker, engine, containerd, cdi}.

    Of other stacks the version alone: it is asked of dpkg, whose status is read anyway.
    """
    row = context.part(NAME)
    installed = context.packages.get(TITLE)
    version = None if installed is None else installed["version"].rsplit("-", 1)[0]
    if not row:
        return {"version": version}
    paths = sorted(files(row, context.options))
    return {
        "version": version,
        "packages": dpkg.select(context, sorted(wanted(row))),
        "files": {path: context.read(path) for path in paths},
        "written": file_state.faults(context, paths),
        "logins": logins.look(context, _logins(context.options)),
        "stale": other_sources.stale_files(context, "container_toolkit", url(row, context.options)),
        "flaws": package_files.flaws(context, wanted(row)),
        "docker": docker(context),
        "engine": engine_look(context),
        "containerd": containerd.look(context),
        "crio": crio.look(context),
        "cdi": cdi.look(context, row["version"]),
    }


def containers(context):
    """{"count", "live_restore"} of the docker that runs; {"count": None} where it does not answer.

    A container that is paused is lost as one that runs.
    """
    shape = "{{.ContainersRunning}} {{.ContainersPaused}} {{.LiveRestoreEnabled}}"
    words = _ask(context, "info", "--format", shape).split()
    if len(words) != 3 or not words[0].isdigit() or not words[1].isdigit():
        return {"count": None, "live_restore": False}
    return {"count": int(words[0]) + int(words[1]), "live_restore": words[2] == "true"}


def _ask(context, *arguments):
    """What the docker of this host answers; "" where it does not."""
    command = ["timeout", PATIENCE, "docker", "--host", SOCKET, *arguments]
    answer = context.run(command)
    return answer.out if answer.rc == 0 else ""


def users(context):
    """Names of the containers at work that were given GPUs by the toolkit; None where unknown."""
    if running(context) is None:
        return []
    if containers(context)["count"] is None:
        return None
    shape = "{{.Name}} {{.HostConfig.Runtime}} {{json .HostConfig.DeviceRequests}}"
    found = []
    for one in _ask(context, "ps", "--quiet", "--no-trunc").split():
        words = _ask(context, "inspect", "--format", shape, one).strip().split(" ", 2)
        if len(words) == 3 and (words[1] == "nvidia" or _asks_for_gpus(words[2])):
            found.append(words[0].lstrip("/"))
    return sorted(found)


def _asks_for_gpus(text):
    """Does a container's list of device requests (docker's JSON) name GPUs? `--gpus` does."""
    try:
        requests = json.loads(text) or []
    except ValueError:
        return False
    for one in requests:
        words = [word for group in one.get("Capabilities") or [] for word in group]
        if one.get("Driver") == "nvidia" or "gpu" in words:
            return True
    return False


def parting(context):
    """What may stand in the way of taking the toolkit away: {"users", "default", "fault"}."""
    text = context.read(CONFIG)
    fault = configured(text)[1]
    config = json.loads(text) if fault is None and text and text.strip() else {}
    return {
        "users": users(context),
        "default": config.get("default-runtime") == "nvidia",
        "fault": None if docker_wish(context.options) == "none" else fault,
    }


# the differences

_REASONS = {
    KEY: "apt trusts NVIDIA's repository by it",
    SOURCES: "apt takes the toolkit's packages from there",
    PREFERENCES: "apt could move the packages away from the lock",
    APT: "apt reads it before it goes to NVIDIA's repository",
}


def _engine_changes(seen, package):
    """Docker itself, and for Docker's own what makes apt go to its repository."""
    changes = []
    if package == ENGINES["docker-ce"]:
        for path in seen["stale"]:
            reason = "names Docker's repository beside ours; kept as {0}{1}".format(
                path, other_sources.SAVED
            )
            changes.append(change(NAME, path, "in apt's way", nvidia_cuda.ASIDE, reason))
        reason = "apt takes docker-ce and its updates from there"
        changes.append(change(NAME, ENGINE_SOURCES, None, "as wished", reason))
    reason = "containers need a docker, and there is none"
    return [*changes, change(NAME, package, None, "installed", reason)]


def _docker_changes(found, options):
    """Docker itself, the runtime's entry, and the restart that makes docker see it."""
    seen = found["docker"]
    changes = []
    if installs(seen, options):
        changes.extend(_engine_changes(found["engine"], engine(options)))
    elif docker_wish(options) == "none" or not seen["installed"]:
        return []
    if seen["fault"] is not None or seen["runtime"] != RUNTIME:
        old = seen["fault"] or seen["runtime"]
        reason = "docker gives GPUs to containers by it; all else in the file stays"
        changes.append(change(NAME, ENTRY, old, RUNTIME, reason))
    new = TITLE not in found["packages"]
    if seen["running"] and (changes or new or seen["owed"]):
        reason = "docker looks for the runtime and its hook when it starts, and at no other time"
        changes.append(change(NAME, RESTART, "started before them", "restarted", reason))
    return changes


def differ(row, found, options):
    """Changes for the source, the packages and docker's configuration."""
    changes = []
    for path in found["stale"]:
        reason = "names NVIDIA's repository beside ours; kept as {0}{1}".format(
            path, other_sources.SAVED
        )
        changes.append(change(NAME, path, "in apt's way", nvidia_cuda.ASIDE, reason))
    texts = files(row, options)
    for path in sorted(texts):
        old = file_state.complaint(
            found["files"].get(path), texts[path], found["written"].get(path)
        )
        if old is not None:
            changes.append(change(NAME, path, old, "as wished", _REASONS[path]))
    changes.extend(logins.differ(NAME, found.get("logins") or {}))
    hold = options.get("nvidia_container_toolkit_hold", True)
    changes.extend(dpkg.package_changes(NAME, wanted(row), found["packages"], hold))
    changes.extend(package_files.flaw_changes(NAME, found["flaws"]))
    changes.extend(_docker_changes(found, options))
    changes.extend(containerd.differ(NAME, found["containerd"]))
    changes.extend(crio.differ(NAME, found["crio"]))
    changes.extend(cdi.differ(NAME, row["version"], found["cdi"], options))
    return changes
