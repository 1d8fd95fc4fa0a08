"""Rules about what prevents changes of workspaces."""

from __future__ import annotations

from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace
from ..nvidia_container_toolkit.rules import docker_silent
from . import obstacles
from .program import traits

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Facts, Options, Reasons, Row


def _workspaces(facts: Facts, options: Options) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """(what stands in the way of workspaces, the people wished for)."""
    return facts["preflight"].get("workspaces") or {}, gpu_workspace.wished_people(options)


def workspace_list(_facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    # An inventory is refused when it is rendered; this is for what comes by -e or a template.
    wrong = gpu_workspace.unreadable(options)
    if wrong is None:
        return []
    return [(f"gpu_workspaces: {wrong}", "`provision explain gpu_workspaces`")]


def workspace_docker(facts: Facts, changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, people = _workspaces(facts, options)
    names = [name for name in obstacles.touched(changes) if name in people]
    return docker_silent(seen.get("docker"), names, changes, "workspaces are its containers")


def workspace_port(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, people = _workspaces(facts, options)
    names = {port: name for name in people for port in traits.ports(people[name])}
    return [
        (
            f"port {port} of {names[port]} is in use by something else on this host",
            f"give {names[port]} another port in gpu_workspaces; `ss -tlnp` says who listens",
        )
        for port in seen.get("ports") or []
    ]


def workspace_user(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, people = _workspaces(facts, options)
    users = seen.get("users") or {}
    return [
        (
            "user {0} of {1} {2}".format(people[name]["user"], name, users[name]),
            f"leave `user` of {name} out: the host gives each person a number of their own",
        )
        for name in sorted(users)
    ]


def workspace_root(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, _people = _workspaces(facts, options)
    if not seen.get("root"):
        return []
    return [
        (
            "the homes' root can't be root's alone: {0}".format(seen["root"]),
            "name a directory in gpu_workspace_root that holds homes of workspaces and nothing "
            "else, below directories that only root can write to",
        )
    ]


def workspace_volume(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, people = _workspaces(facts, options)
    return [
        (
            f"a volume of {name} can be swapped for a link, which docker would follow as root: "
            f"{why}",
            "name a directory below directories that only root can write to, as "
            f"/srv/data/{name}; itself it may be anybody's",
        )
        for name, why in sorted((seen.get("volumes") or {}).items())
        if name in people
    ]


def workspace_gpu(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    _seen, people = _workspaces(facts, options)
    count = len(facts["gpus"])
    reasons = []
    for name in sorted(people):
        gpus = people[name]["gpus"]
        numbers = [gpu for gpu in gpus if isinstance(gpu, int)] if isinstance(gpus, list) else []
        lacking: list[int | str] = [index for index in numbers if index >= count]
        if gpus == "all" and not count:
            lacking = ["all"]
        if isinstance(gpus, int) and gpus > count:
            lacking = [gpus]
        if lacking:
            message = (
                "{0} is to get GPU {1}" if isinstance(gpus, list) else "{0} is to get {1} GPUs"
            )
            reasons.append(
                (
                    (message + ", and this host has {2}").format(name, lacking[0], count),
                    "indices count from 0; `nvidia-smi -L` lists them. gpus: none is a workspace "
                    "without",
                )
            )
    return reasons


def workspace_memory(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, people = _workspaces(facts, options)
    memory = seen.get("memory")
    together = sum(traits.size(people[name].get("memory")) or 0 for name in people)
    if memory is None or together <= memory:
        return []
    return [
        (
            f"the workspaces may use {together >> 20} MiB together, and this host has "
            f"{memory >> 20} MiB",
            "give less memory in gpu_workspaces; who is over the limit is ended by the kernel",
        )
    ]


def workspace_in_use(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    seen, _people = _workspaces(facts, options)
    users = seen.get("in_use")
    if not users or options.get("gpu_workspace_in_use") == "stop":
        return []
    counts = [f"{name} ({users[name]})" for name in sorted(users)]
    return [
        (
            "their containers would be stopped, and these people have kernels, terminals or SSH "
            "open: " + ", ".join(counts),
            "let them save and end those, or -e gpu_workspace_in_use=stop",
        )
    ]


RULES = rules_of(
    gpu_workspace.NAME,
    stops={
        "workspace-list": workspace_list,
        "workspace-docker": workspace_docker,
        "workspace-port": workspace_port,
        "workspace-user": workspace_user,
        "workspace-root": workspace_root,
        "workspace-volume": workspace_volume,
        "workspace-gpu": workspace_gpu,
        "workspace-memory": workspace_memory,
        "workspace-in-use": workspace_in_use,
    },
)
