"""Proves that each workspace works."""

from __future__ import annotations

import re
import time

from ...type_checking import TYPE_CHECKING
from . import jupyter
from .program import files, handed_gpus, places, programs, settings

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import State

# systemd tries again after 5 seconds: a fault that lasts longer is permanent.
PERSISTS = 12


def quota(cpus: float) -> str:
    """The microseconds of each 100 ms that docker gives `--cpus`: it counts whole billionths of a
    processor, and cuts off what is less than a microsecond.
    """
    return str(round(cpus * 1e9) // 10000)


def limits(state: State) -> str | None:
    """What is wrong with a container's limits; None where they are in force."""
    memory = state["memory"]
    if memory is not None:
        limit = (files.text(state["groups"]["memory"]) or "").strip()
        if limit != str(memory):
            return "its memory is limited to {0}, not {1}".format(limit or "nothing", memory)
    if state["cpus"] is not None:
        words = (files.text(state["groups"]["cpu"]) or "").split()
        if not words or words[0] != quota(state["cpus"]):
            return "its processors are limited to {0}, not {1}".format(
                words[0] if words else "nothing", quota(state["cpus"])
            )
    return None


def proven(name: str, until: float) -> str | None:
    """None where a workspace works; else why not. Waits for a slow start."""
    failing = None
    while True:
        state = files.data(f"{places.STATE}/{name}.json") or {}
        failing = (failing or time.time()) if state.get("error") else None
        if failing is not None and time.time() - failing > PERSISTS:
            return "docker could not start it: {0}".format(state["error"])
        wrong: str | None = "nothing of it runs"
        if "container" in state:
            wrong = _jupyter(name, state) or _ssh(name, state) or _board(name, state)
        if wrong is None:
            break
        if time.time() > until:
            return f"{wrong} (docker logs {places.container(name)})"
        time.sleep(0.5)
    if state.get("port"):
        refused, _body = jupyter.ask(
            (state["address"], state["port"]), state["base"] + "api/status"
        )
        if refused not in (401, 403):
            return f"Jupyter answers without the token: status {refused}"
    if programs.call(["systemctl", "is-active", places.UNIT.format(name)])[1].strip() != "active":
        return f"the unit {places.UNIT.format(name)} is not active"
    return limits(state)


def _jupyter(name: str, state: State) -> str | None:
    """Why Jupyter refuses the token; None where it accepts it, or is not wished for."""
    if not state.get("port"):
        return None
    token = files.text(places.folder(name) + "/token")
    status, _body = jupyter.ask(
        f"{places.PORTS}/{name}.jupyter", state["base"] + "api/status", token
    )
    if status == 200:
        return None
    answer = f"status {status}" if status else "no answer"
    return f"Jupyter does not take the token: {answer}"


def _board(name: str, state: State) -> str | None:
    """Why TensorBoard does not answer; None where it does, or is not wished for."""
    port = state.get("tensorboard_port")
    if not port:
        return None
    if jupyter.ask(("127.0.0.1", port), f"/{name}/tensorboard/")[0] == 200:
        return None
    return f"TensorBoard does not answer at port {port}"


def _ssh(name: str, state: State) -> str | None:
    """What is wrong with sshd's login methods: keys, and a password only where one is set."""
    if not state.get("ssh_port"):
        return None
    ways = offered(name, state["ssh_address"], state["ssh_port"])
    should = settings.to_offer(name)
    if ways in (should, None):
        return None
    return "sshd offers {0}, and should offer {1} alone".format(ways or "nothing", should)


def offered(name: str, address: str, port: int) -> str | None:
    """The login methods that sshd itself offers ("publickey"); "" where it does not answer.

    None where this host has no ssh client.
    """
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    code, _out, error = programs.call(
        [
            *("ssh", "-F", "/dev/null", "-p", str(port), "-o", "BatchMode=yes"),
            *("-o", "PreferredAuthentications=none", "-o", "StrictHostKeyChecking=no"),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=10"),
            *(f"{name}@{host}", "true"),
        ]
    )
    if code == 127:
        return None
    refusal = re.search(r"Permission denied \(([a-z,-]+)\)", error)
    return refusal.group(1) if refusal else ""


def prove(seconds: float) -> dict[str, Any]:
    """RefusedError with all that is wrong with the workspaces of this host."""
    until = time.time() + float(seconds)
    faults = {name: proven(name, until) for name in settings.recorded_people()}
    handed = handed_gpus.handed()
    for name in faults:
        faults[name] = faults[name] or handed["people"].get(name, {}).get("wrong")
    wrong = [f"{name}: {faults[name]}" for name in sorted(faults) if faults[name]]
    wrong += [handed["tensorflow"]["wrong"]] if handed["tensorflow"]["wrong"] else []
    if wrong:
        raise places.RefusedError("; ".join(wrong))
    return {"proven": sorted(faults), "gpus": handed}
