"""Makes docker know NVIDIA's runtime, or forget it.

daemon.json is the administrator's: it is read and written as data, every other key stays, what was
there is kept under another name, and a file that is no JSON is left alone and refused. dockerd
looks for NVIDIA's hook when it starts and at no other time
(https://github.com/moby/moby/blob/v24.0.0/daemon/nvidia_linux.go, `init`), so it must be restarted
once; that a running dockerd still has to be is noted under /run with that process's own start, and
settled by whoever restarts it.

Taking the entry away needs no restart: at SIGHUP dockerd reads `runtimes` anew
(https://docs.docker.com/reference/cli/dockerd/#configuration-reload-behavior), and no container is
lost by that. It does so only where the file has the word
(https://github.com/moby/moby/blob/v24.0.0/daemon/reload_unix.go, `reloadPlatform`).
"""

import json
import os
import signal
import time

from . import docker
from .docker import CONFIG, RUNTIME
from .kept_files import RefusedError, inside, keep, note_restart, put_back, replace, text
from .runtime import Runtime

_WAY_OUT = (
    'Stop the containers when their users agree, or let them live through it: "live-restore": true '
    f"in {CONFIG}, then systemctl reload docker, which restarts nothing. Then run again."
)

_REPAIR = (
    f"It was left as it is, and nothing was changed: repair it (python3 -m json.tool {CONFIG} "
    "shows where), or set nvidia_container_toolkit_docker to none."
)


def _merged(config):
    """The configuration with the runtime; arguments that somebody gave it stay."""
    runtimes = dict(config.get("runtimes", {}))
    before = runtimes.get("nvidia")
    arguments = before.get("args") if isinstance(before, dict) else None
    runtimes["nvidia"] = {"args": arguments or [], "path": RUNTIME}
    return dict(config, runtimes=runtimes)


def _json(config):
    return json.dumps(config, indent=4, ensure_ascii=False) + "\n"


def _entry(config):
    """The runtime's entry alone, as text; "" without one."""
    entry = config.get("runtimes", {}).get("nvidia")
    return "" if entry is None else _json({"runtimes": {"nvidia": entry}})


class Docker(Runtime):
    """The docker of a host, whose daemon.json gets one entry."""

    name, daemon = "Docker", "docker"
    unit, config = "docker.service", CONFIG
    would = (
        f"Would make the runtime nvidia known to docker in {CONFIG}, and restart docker where it "
        "runs"
    )
    would_forget = f"Would take the runtime nvidia out of {CONFIG}"
    # A unit with --add-runtime is such a case: docker takes no runtimes from both places.
    journal = (
        "journalctl -u docker says why: a unit that gives dockerd --add-runtime, for one, allows "
        "no runtimes in the file."
    )
    restarts_to_forget = False

    # daemon.json

    def _read(self):
        """daemon.json as a dict. RefusedError where it can't be read as what it should be."""
        try:
            config, fault = docker.parsed(text(self.context, CONFIG))
        except (OSError, UnicodeDecodeError) as error:
            raise RefusedError(f"{CONFIG} can't be read: {error}") from error
        if fault is not None:
            raise RefusedError(f"{CONFIG} is {fault}")
        return config

    def _path(self):
        """A link of the administrator's stays one."""
        return os.path.realpath(inside(self.context, CONFIG))

    def planned(self):
        """(daemon.json as it is, as it should be)."""
        config = self._read()
        return config, config if docker.program(config) == RUNTIME else _merged(config)

    def difference(self, old, new):
        """Of the entry alone: the rest may hold a proxy's password."""
        header = {"before_header": CONFIG, "after_header": CONFIG}
        return dict(header, before=_entry(old), after=_entry(new))

    def write(self):
        """Merge the runtime into daemon.json; what was there is kept beside it."""
        old, new = self.planned()
        if new == old:
            return {"changed": False, "saved": None}
        path = self._path()
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        saved, like = keep(path)
        note_restart(self.context, docker.OWED, docker.running(self.context))
        replace(path, _json(new), like)
        return {"changed": True, "saved": saved, "diff": self.difference(old, new)}

    def restore(self, saved):
        """Put back what `write` found: the file that it kept under `saved`, or none."""
        put_back(self._path(), saved)

    def take(self):
        """Take the runtime out of daemon.json; a copy of what was there is kept beside it.

        A file in which nothing else stands goes. An entry that leads elsewhere is somebody else's.
        A dockerd that runs reads the file anew.
        """
        config = self._read()
        if docker.program(config) != RUNTIME:
            return {"changed": False, "saved": None}
        if config.get("default-runtime") == "nvidia":
            raise RefusedError(f"{CONFIG} names nvidia as default-runtime")
        runtimes = {name: entry for name, entry in config["runtimes"].items() if name != "nvidia"}
        left = {name: value for name, value in config.items() if name != "runtimes"}
        if runtimes:
            left["runtimes"] = runtimes
        path = self._path()
        saved, like = keep(path)
        running = docker.running(self.context)
        if running is not None:
            replace(path, _json(dict(left, runtimes=runtimes)), like)
            os.kill(int(running.split()[0]), signal.SIGHUP)
            self._wait_until_forgotten()
        if left:
            replace(path, _json(left), like)
        else:
            os.unlink(path)
        return {"changed": True, "saved": saved, "diff": self.difference(config, left)}

    def _wait_until_forgotten(self):
        """One that does not answer is not waited for."""
        for _ in range(50):
            if '"nvidia"' not in self._known():
                return
            time.sleep(0.2)

    def _known(self):
        """Docker's own list of its runtimes, as JSON; "" where it does not answer."""
        return docker.ask(self.context, "info", "--format", "{{json .Runtimes}}")

    # what is there

    def left_alone(self):
        return docker.wish(self.context.options) == "none"

    def wanted(self):
        return any(self.context.exists(path) for path in docker.PROGRAMS)

    def there(self):
        return docker.look(self.context)

    def look(self):
        """As docker.look, with `planned`, all that is known of the fault, and `containers`."""
        found = dict(docker.look(self.context), planned=None, containers=None)
        try:
            found["planned"] = self.planned()
        except RefusedError as error:
            found["fault"] = str(error)
        if found["running"]:
            found["containers"] = docker.containers(self.context)
        return found

    def _hook_comes(self):
        """Is the package that brings the hook still to come?"""
        package = self.context.packages.get(docker.TOOLKIT)
        return package is None or package["status"] != "installed"

    def _restarts(self, found):
        """Docker looks for the runtime and its hook when it starts: has it to start anew?"""
        right = found["runtime"] == RUNTIME
        return found["running"] and (found["owed"] or self._hook_comes() or not right)

    def due(self, found):
        return found["runtime"] != RUNTIME or self._restarts(found)

    def unserved(self, found):
        if docker.missing(found, self.context.options):
            snap = f", but from snap, whose configuration is not {CONFIG}" if found["snap"] else ""
            return (
                f"nvidia_container_toolkit_docker is required, and docker is not installed{snap}. "
                "Install docker.io or docker-ce first, or set it to auto. Nothing was changed."
            )
        others = docker.in_place(docker.others(self.context), self.context.options)
        if others:
            return (
                f"nvidia_container_toolkit_docker_engine is docker-ce, and {', '.join(others)} is "
                "installed, which apt would remove for it. Nothing was changed: remove it yourself "
                "when nobody needs it (images and volumes stay in /var/lib/docker), or let "
                "nvidia_container_toolkit_docker_engine be check, which uses what is there."
            )
        if found["snap"]:
            package = " and from a package" if found["installed"] else ""
            return (
                f"Docker is here from snap{package}; the one of snap reads another file than "
                f"{CONFIG}, and its containers would get no GPU. Nothing was changed: move its "
                "containers to docker.io or docker-ce and snap remove docker, or leave docker "
                "alone with nvidia_container_toolkit_docker none."
            )
        return None

    def unready(self, found, written=None):
        if written is not None:
            if not found["owed"] or not docker.loses(found["containers"]):
                return None
            return (
                f"Docker still has to be restarted to find the runtime, and {self._lost(found)}. "
                f"The toolkit is installed and daemon.json is written. {_WAY_OUT}"
            )
        if found["fault"] is not None:
            return f"{found['fault']}. {_REPAIR}"
        if self._restarts(found) and docker.loses(found["containers"]):
            return (
                f"Docker has to be restarted to find the runtime, and {self._lost(found)}. "
                f"Nothing was changed. {_WAY_OUT}"
            )
        return None

    def _lost(self, found):
        count = found["containers"]["count"]
        if count is None:
            return "docker runs and does not answer, so whether containers run cannot be known"
        return f"running containers would be lost ({count})"

    def proof(self, found):
        """Does the docker that runs know the runtime?"""
        if not found["running"]:
            return
        try:
            known = json.loads(self._known())
        except ValueError:
            known = None
        if isinstance(known, dict) and "nvidia" in known:
            return
        words = "docker runs and does not answer"
        if isinstance(known, dict):
            words = f"docker knows the runtimes {', '.join(sorted(known))} alone"
        raise RefusedError(
            f"{words}, though {CONFIG} names the runtime nvidia. journalctl -u docker says why; a "
            "docker started with --config-file reads another file."
        )

    def restart_due(self):
        """Note that a docker which runs has to look for the hook anew, where the hook comes now."""
        running = docker.running(self.context)
        if running is not None and self._hook_comes() and not self.left_alone():
            note_restart(self.context, docker.OWED, running)

    # without it

    def parting(self):
        """As docker.parting, with `entry`: is the runtime's entry there, and ours?"""
        found = dict(docker.parting(self.context), entry=False, fault=None)
        try:
            found["entry"] = docker.program(self._read()) == RUNTIME
        except RefusedError as error:
            found["fault"] = str(error)
        return found

    def needed(self, found):
        if found["users"] is None:
            return (
                "Docker runs and does not answer, so whether containers use the toolkit cannot be "
                "known. Nothing was changed."
            )
        if found["users"]:
            return (
                "Containers at work were given GPUs by the toolkit, and could not be started again "
                f"without it: {', '.join(found['users'])}. Stop them when their users agree, then "
                "run again. Nothing was changed."
            )
        if found["fault"] is not None and not self.left_alone():
            return f"{found['fault']}. {_REPAIR}"
        if found["default"]:
            return (
                f"{CONFIG} names nvidia as its default-runtime, and docker would not start without "
                "that runtime. Nothing was changed: take default-runtime out of it, systemctl "
                "reload docker, then run again."
            )
        return None
