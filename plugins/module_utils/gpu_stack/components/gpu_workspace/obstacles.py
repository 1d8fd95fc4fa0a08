"""What prevents changes of workspaces on a host: used ports, memory, people at work."""

from __future__ import annotations

import json
import re

from ...host import listening, mapping
from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace
from . import wished, workspace_users
from .program import places, traits

if TYPE_CHECKING:
    from typing import Any, Mapping

    from ...host.context import Context
    from ...shapes import Changes

# Seconds for the whole of an answer of somebody's Jupyter.
ANSWER = 5


def touched(changes: Changes) -> list[str]:
    """Names of the people whose containers these changes stop or start."""
    prefix = "workspace "
    items = [row["item"] for row in changes if row["component"] == gpu_workspace.NAME]
    return [item[len(prefix) :] for item in items if item.startswith(prefix)]


def stands_in_the_way(context: Context, changes: Changes) -> dict[str, Any]:
    """{docker, ports, memory, in_use, users, root} of the host, for the people who change.

    `ports` are ports that a workspace needs and another program uses; `in_use` is {name: number
    of open kernels, terminals and SSH connections}.
    """
    names, people = touched(changes), gpu_workspace.wished_people(context.options)
    runs = gpu_workspace.running(context)
    settings = {name: gpu_workspace.person(context, name)["settings"] for name in runs or {}}
    options = wished.with_image(context.options, context.row)
    for name in settings:
        if settings[name] is None and name in people:
            # Without the file the container most likely is as wished.
            settings[name] = dict(wished.settings(people[name], options, {}), ports=None)
    held = held_ports(context, settings)
    ports = sorted(port for name in names if name in people for port in traits.ports(people[name]))
    return {
        "docker": runs is not None,
        "ports": [port for port in ports if port not in held and listening.sockets(context, port)],
        "memory": memory(context),
        "in_use": in_use(context, [name for name in names if name in settings], settings),
        "users": workspace_users.look(context, people)["taken"],
        "root": workspace_users.unfit(context) if people else None,
        "volumes": workspace_users.swapped(context, people),
    }


def held_ports(context: Context, settings: Mapping[str, dict[str, Any] | None]) -> set[int]:
    """The ports of the host that containers have, or systemd holds for somebody.

    `settings` are those of the people whose containers run, {name: workspace.json or None}.
    """
    held = set()
    for recorded in settings.values():
        held.update(traits.ports((recorded or {}).get("workspace") or {}))
    words = {"jupyter": "port", "tensorboard": "tensorboard_port"}
    for name in gpu_workspace.recorded_people(context):
        recorded = gpu_workspace.person(context, name)["settings"] or {}
        person = recorded.get("workspace") or {}
        for service, word in words.items():
            path = f"{places.PORTS}/{name}.{service}"
            if word in person and context.lstat(path) is not None:
                held.add(person[word])
    return held


def in_use(
    context: Context, names: list[str], settings: Mapping[str, dict[str, Any] | None]
) -> dict[str, int]:
    """{name: number of open kernels, terminals and SSH connections}, where it is not 0."""
    counts = {}
    for name in names:
        recorded = settings[name] or {}
        count = sessions(context, name)
        address, port = recorded.get("address"), (recorded.get("workspace") or {}).get("port")
        if address and port:
            path = f"{places.PORTS}/{name}.jupyter"
            # One made before systemd held the ports has its own.
            held = recorded.get("ports") or context.lstat(path) is not None
            token = context.read(places.folder(name) + "/token")
            # One made before there were base paths has none.
            count += opened(path if held else (address, port), token, recorded.get("base", "/"))
        if count:
            counts[name] = count
    return counts


def sessions(context: Context, name: str) -> int:
    """Number of a person's open connections to sshd, from the container's /proc/PID/net."""
    state = mapping.of(context.read(f"{places.STATE}/{name}.json"))
    if state is None:
        return 0
    count = 0
    for path in ("tcp", "tcp6"):
        text = context.read("/proc/{0}/net/{1}".format(state.get("pid"), path)) or ""
        for line in text.splitlines()[1:]:
            words = line.split()
            count += words[3] == "01" and int(words[1].rpartition(":")[2], 16) == places.SSH
    return count


def kept_gpus(context: Context) -> dict[str, list[int]]:
    """{person: indices} of the GPUs that people have at this moment, whatever they asked for."""
    kept: dict[str, list[int]] = {}
    for name in gpu_workspace.recorded_people(context):
        try:
            indices = json.loads(context.read(places.folder(name) + "/gpus.json") or "null")
        except ValueError:
            continue
        if isinstance(indices, list):
            kept[name] = indices
    return kept


def memory(context: Context) -> int | None:
    """Bytes of memory of the host; None where unknown."""
    total = re.search(r"^MemTotal:\s+(\d+) kB", context.read("/proc/meminfo") or "", re.M)
    return int(total.group(1)) * 1024 if total else None


def opened(place: str | tuple[str, int], token: str | None, base: str = "/") -> int:
    """Number of a person's open kernels and terminals; 0 where Jupyter does not answer.

    `place` is (address, port), or the socket that systemd opened for root, so that the token goes
    to nobody else.
    """
    # Imported only when needed: it takes longer than the rest of the look.
    from . import jupyter

    count = 0
    for path in (base + "api/kernels", base + "api/terminals"):
        status, body = jupyter.ask(place, path, token, ANSWER)
        try:
            answer = json.loads(body) if status == 200 else []
        except (ValueError, RecursionError):
            continue
        count += len(answer) if isinstance(answer, list) else 0
    return count
