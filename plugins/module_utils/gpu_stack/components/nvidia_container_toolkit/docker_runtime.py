"""Adds NVIDIA's runtime to docker's configuration, or removes it.

daemon.json is the administrator's: only one entry of it changes, the former file is kept under
another name, and a file that is not JSON is refused. dockerd looks for NVIDIA's hook only when it
starts (https://github.com/moby/moby/blob/v24.0.0/daemon/nvidia_linux.go, `init`), so it must be
restarted once. A pending restart is noted under /run with the start of the dockerd process, so that
whoever restarts it settles it.

Removing the entry needs no restart: at SIGHUP dockerd reloads `runtimes`
(https://docs.docker.com/reference/cli/dockerd/#configuration-reload-behavior), which ends no
container. It does so only if the file has that key
(https://github.com/moby/moby/blob/v24.0.0/daemon/reload_unix.go, `reloadPlatform`).
"""

from __future__ import annotations

import json
import os
import signal
import time

from ...host import mapping
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import docker
from .docker import CONFIG, RUNTIME
from .kept_files import inside, keep, note_restart, put_back, replace, text
from .runtime import Runtime

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import State

_WAY_OUT = (
    'Stop the containers when their users agree, or keep them running: "live-restore": true '
    f"in {CONFIG}, then systemctl reload docker, which restarts nothing. Then run again."
)

_REPAIR = (
    f"It was left as it is, and nothing was changed: repair it (python3 -m json.tool {CONFIG} "
    "shows where), or set nvidia_container_toolkit_docker to none."
)


def _merged(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the runtime; arguments that somebody gave it stay."""
    runtimes = dict(config.get("runtimes", {}))
    before = runtimes.get("nvidia")
    arguments = before.get("args") if isinstance(before, dict) else None
    runtimes["nvidia"] = {"args": arguments or [], "path": RUNTIME}
    return dict(config, runtimes=runtimes)


def _json(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=4, ensure_ascii=False) + "\n"


def _entry(config: dict[str, Any]) -> str:
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
    would_forget = f"Would remove the runtime nvidia from {CONFIG}"
    # docker takes runtimes from the file or from --add-runtime, not from both.
    journal = (
        "journalctl -u docker says why: a unit that gives dockerd --add-runtime, for one, allows "
        "no runtimes in the file."
    )
    restarts_to_forget = False

    # daemon.json

    def _read(self) -> dict[str, Any]:
        """daemon.json as a dict. RefusalError where it can't be read as what it should be."""
        try:
            config, fault = docker.parsed(text(self.context, CONFIG))
        except (OSError, UnicodeDecodeError) as error:
            raise RefusalError(f"{CONFIG} can't be read: {error}") from error
        if config is None:
            raise RefusalError(f"{CONFIG} is {fault}")
        return config

    def _path(self) -> str:
        """The file to write; a link of the administrator's is followed, and stays."""
        return os.path.realpath(inside(self.context, CONFIG))

    def planned(self) -> tuple[Any, Any]:
        """(daemon.json as it is, as it should be)."""
        config = self._read()
        return config, config if docker.program(config) == RUNTIME else _merged(config)

    def difference(self, old: Any, new: Any) -> dict[str, Any]:
        """The diff of the entry alone: the rest may hold a proxy's password."""
        header = {"before_header": CONFIG, "after_header": CONFIG}
        return dict(header, before=_entry(old), after=_entry(new))

    def write(self) -> dict[str, Any]:
        """Merges the runtime into daemon.json; the former file is kept beside it."""
        old, new = self.planned()
        if new == old:
            return {"changed": False, "saved": None}
        path = self._path()
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        saved, status = keep(path)
        note_restart(self.context, docker.OWED, docker.running(self.context))
        replace(path, _json(new), status)
        return {"changed": True, "saved": saved, "diff": self.difference(old, new)}

    def restore(self, saved: str | None) -> None:
        """Restores the file that `write` kept as `saved`; None removes daemon.json."""
        put_back(self._path(), saved)

    def take(self) -> dict[str, Any]:
        """Removes the runtime from daemon.json; a copy of the former file is kept beside it.

        A file without other keys is removed. An entry with another program is not ours. A running
        dockerd reloads the file.
        """
        config = self._read()
        if docker.program(config) != RUNTIME:
            return {"changed": False, "saved": None}
        if config.get("default-runtime") == "nvidia":
            raise RefusalError(f"{CONFIG} names nvidia as default-runtime")
        runtimes = {name: entry for name, entry in config["runtimes"].items() if name != "nvidia"}
        left = {name: value for name, value in config.items() if name != "runtimes"}
        if runtimes:
            left["runtimes"] = runtimes
        path = self._path()
        saved, status = keep(path)
        running = docker.running(self.context)
        if running is not None:
            replace(path, _json(dict(left, runtimes=runtimes)), status)
            os.kill(int(running.split()[0]), signal.SIGHUP)
            self._wait_until_forgotten()
        if left:
            replace(path, _json(left), status)
        else:
            os.unlink(path)
        return {"changed": True, "saved": saved, "diff": self.difference(config, left)}

    def _wait_until_forgotten(self) -> None:
        """Waits until dockerd has dropped the runtime, unless it does not answer."""
        for _turn in range(50):
            if '"nvidia"' not in self._known():
                return
            time.sleep(0.2)

    def _known(self) -> str:
        """Docker's own list of its runtimes, as JSON; "" where it does not answer."""
        return docker.ask(self.context, "info", "--format", "{{json .Runtimes}}")

    # the state

    def left_alone(self) -> bool:
        return docker.wish(self.context.options) == "none"

    def needs_runtime(self) -> bool:
        return any(self.context.exists(path) for path in docker.PROGRAMS)

    def installation(self) -> dict[str, Any]:
        return docker.look(self.context)

    def look(self) -> dict[str, Any]:
        """As docker.look, with `planned`, all that is known of the fault, and `containers`."""
        state = dict(docker.look(self.context), planned=None, containers=None)
        try:
            state["planned"] = self.planned()
        except RefusalError as error:
            state["fault"] = str(error)
        if state["running"]:
            state["containers"] = docker.containers(self.context)
        return state

    def _hook_comes(self) -> bool:
        """Whether the package that brings the hook is yet to be installed."""
        package = self.context.packages.get(docker.TOOLKIT)
        return package is None or package["status"] != "installed"

    def _restarts(self, state: State) -> bool:
        """Whether docker must be restarted to find the runtime and its hook."""
        right = state["runtime"] == RUNTIME
        return state["running"] and (state["owed"] or self._hook_comes() or not right)

    def due(self, state: State) -> bool:
        return state["runtime"] != RUNTIME or self._restarts(state)

    def unserved(self, state: State) -> str | None:
        if docker.missing(state, self.context.options):
            snap = f", but from snap, whose configuration is not {CONFIG}" if state["snap"] else ""
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
        if state["snap"]:
            package = " and from a package" if state["installed"] else ""
            return (
                f"Docker is here from snap{package}; the one of snap reads another file than "
                f"{CONFIG}, and its containers would get no GPU. Nothing was changed: move its "
                "containers to docker.io or docker-ce and snap remove docker, or leave docker "
                "alone with nvidia_container_toolkit_docker none."
            )
        return None

    def unready(self, state: State, written: dict[str, Any] | None = None) -> str | None:
        if written is not None:
            if not state["owed"] or not docker.loses(state["containers"]):
                return None
            return (
                f"Docker still has to be restarted to find the runtime, and {self._lost(state)}. "
                f"The toolkit is installed and daemon.json is written. {_WAY_OUT}"
            )
        if state["fault"] is not None:
            return f"{state['fault']}. {_REPAIR}"
        if self._restarts(state) and docker.loses(state["containers"]):
            return (
                f"Docker has to be restarted to find the runtime, and {self._lost(state)}. "
                f"Nothing was changed. {_WAY_OUT}"
            )
        return None

    def _lost(self, state: State) -> str:
        count = state["containers"]["count"]
        if count is None:
            return "docker runs and does not answer, so whether containers run cannot be known"
        return f"running containers would be lost ({count})"

    def proof(self, state: State) -> None:
        """Raises RefusalError if the running docker does not know the runtime."""
        if not state["running"]:
            return
        runtimes = mapping.of(self._known())
        if runtimes is not None and "nvidia" in runtimes:
            return
        words = "docker runs and does not answer"
        if runtimes is not None:
            words = f"docker knows the runtimes {', '.join(sorted(runtimes))} alone"
        raise RefusalError(
            f"{words}, though {CONFIG} names the runtime nvidia. journalctl -u docker says why; a "
            "docker started with --config-file reads another file."
        )

    def restart_due(self) -> None:
        """Notes a restart of a running docker, if the hook is yet to be installed."""
        running = docker.running(self.context)
        if running is not None and self._hook_comes() and not self.left_alone():
            note_restart(self.context, docker.OWED, running)

    # without it

    def removal_state(self) -> dict[str, Any]:
        """As docker.removal_state, with `entry`: whether the runtime's entry exists and is ours."""
        state = dict(docker.removal_state(self.context), entry=False, fault=None)
        try:
            state["entry"] = docker.program(self._read()) == RUNTIME
        except RefusalError as error:
            state["fault"] = str(error)
        return state

    def needed(self, state: State) -> str | None:
        if state["users"] is None:
            return (
                "Docker runs and does not answer, so whether containers use the toolkit cannot be "
                "known. Nothing was changed."
            )
        if state["users"]:
            return (
                "Running containers have GPUs from the toolkit, and could not be started again "
                f"without it: {', '.join(state['users'])}. Stop them when their users agree, then "
                "run again. Nothing was changed."
            )
        if state["fault"] is not None and not self.left_alone():
            return f"{state['fault']}. {_REPAIR}"
        if state["default"]:
            return (
                f"{CONFIG} names nvidia as its default-runtime, and docker would not start without "
                "that runtime. Nothing was changed: take default-runtime out of it, systemctl "
                "reload docker, then run again."
            )
        return None
