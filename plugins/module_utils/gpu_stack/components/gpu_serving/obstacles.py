"""What prevents changes of served models: their directories, used ports, docker, memory."""

from __future__ import annotations

import stat

from ...host import listening
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving
from ..gpu_workspace import obstacles as of_workspaces
from ..gpu_workspace import workspace_users
from ..gpu_workspace.program import traits
from . import entries, saved_model, wished

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes


def stands_in_the_way(context: Context, changes: Changes) -> dict[str, Any]:
    """{docker, ports, memory, models, swapped, kept} of the host, for the models that change."""
    models = wished.models(context.options)
    names = [name for name in gpu_serving.touched(changes) if name in models]
    return {
        "docker": gpu_serving.running(context) is not None,
        "ports": used_ports(context, [models[name] for name in names]),
        "memory": of_workspaces.memory(context),
        "models": {name: directory(context, models[name]) for name in names},
        "swapped": swapped(context, models),
        "kept": of_workspaces.kept_gpus(context),
    }


def used_ports(context: Context, models: list[dict[str, Any]]) -> list[int]:
    """The ports that these models need and something else uses."""
    held = set()
    for name in gpu_serving.recorded(context):
        record = gpu_serving.record_of(context, name) or {}
        held.update(entries.ports((record.get("settings") or {}).get("entry") or {}))
    wanted = sorted(port for entry in models for port in entries.ports(entry))
    return [
        port
        for port in wanted
        if listening.sockets(context, port)
        # A model's own, while systemd holds it: a user may have opened it in systemd's absence.
        and not (port in held and gpu_serving.holds(context, port))
    ]


def swapped(context: Context, models: dict[str, dict[str, Any]]) -> dict[str, str]:
    """{name: why} of the models with a directory that others could replace by a link.

    docker follows that link as root whenever the container starts.
    """
    volumes = {
        name: {"volumes": [{"path": path} for path in (entry["models"], entry["files"]) if path]}
        for name, entry in models.items()
    }
    return workspace_users.swapped(context, volumes)


def directory(context: Context, entry: dict[str, Any]) -> dict[str, Any]:
    """What a model's directory has, as saved_model.look, and whether its user can read it."""
    seen = saved_model.look(context, entry["models"])
    seen["closed"] = _closed(context, entry)
    seen["files"] = not entry["files"] or context.isdir(entry["files"])
    return seen


def _closed(context: Context, entry: dict[str, Any]) -> str | None:
    """The directory that the container's user can't read; None: it can read the newest version.

    In the container nothing above the model's directory is in the way.
    """
    uid, gid = traits.numbers(entry["user"])
    names = saved_model.versions(context, entry["models"])
    paths: list[str] = [entry["models"]]
    paths += [f"{paths[0]}/{names[max(names)]}"] if names else []
    paths += [f"{paths[-1]}/{saved_model.FILE}"] if names else []
    for path in paths:
        info = context.stat(path)
        if info is None:
            continue
        need = 0o4 if stat.S_ISREG(info.st_mode) else 0o5
        shift = 6 if info.st_uid == uid else 3 if info.st_gid == gid else 0
        if (info.st_mode >> shift) & need != need:
            return path
    return None
