"""Finds the workspaces that are not as wished, and refuses changes that can't be made."""

from __future__ import annotations

from ...host import listening
from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace
from . import allocation, homes, obstacles, running_host, uids, workspace_users
from .program import docker, people_list, places, settings, traits

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context


def look(wish: dict[str, Any]) -> dict[str, Any]:
    """What differs from the wish; changes nothing. RefusedError if this host can't fulfil it.

    {changes: {name: why}, gone: names, image, tried, parts, open}: `image`: whether docker has it;
    `tried`: whether it was seen to have the parts that people need; `open`: whether others than
    root can enter the homes' root.
    """
    people = people_list.checked(wish["workspaces"])
    names = {person["name"] for person in people}
    left = [name for name in settings.recorded_people() if name not in names]
    seen: dict[str, Any] = {"changes": {}, "gone": left, "parts": [], "open": False}
    seen.update(image=True, tried=True)
    if not people and not left:
        return seen
    # Without docker no container runs, and removed people's files can still be deleted.
    runs = docker.running() if people or docker.answer("version")[0] == 0 else {}
    context = running_host.context(wish)
    users = uids.own_users(context, people)
    homes.refuse_homes(context, people, users)
    # That stops no container.
    seen["open"] = bool(people) and homes.open_to_others(wish["root"])
    models, slurm = wish.get("models") or [], wish.get("slurm", 0)
    seen["changes"] = _changes(context, people, runs, models, slurm)
    if seen["changes"]:
        _refuse_volumes(context)
    _refuse_memory(context, wish, people)
    _refuse_ports(context, people, runs)
    _refuse_users(context, wish, seen, runs)
    if people:
        docker.network()
        seen.update(_image(wish, people))
    return seen


def _changes(
    context: Context,
    people: list[dict[str, Any]],
    runs: dict[str, str],
    models: list[dict[str, Any]],
    slurm: Any,
) -> dict[str, str]:
    """{name: why} of the workspaces that are not as wished."""
    wishes = gpu_workspace.wished_people(context.options)
    state = {"running": runs, "uids": workspace_users.look(context, wishes)}
    changes: dict[str, str] = {}
    recorded = settings.recorded_people()
    for name in wishes:
        present = gpu_workspace.person(context, name) if name in recorded else None
        wrong = gpu_workspace.fault(wishes[name], present, state, context.options)
        home = state["uids"]["homes"].get(name, {"owner": None})
        if wrong is not None:
            changes[name] = wrong[0] or "absent"
        elif home["owner"] != state["uids"]["users"].get(name):
            changes[name] = "the home is another user's"
    kept, allocated = allocation.kept(), allocation.asked_for(people, models, slurm)
    for name in sorted(allocated):
        if kept.get(name) is not None and kept[name] != allocated[name]:
            changes.setdefault(name, "other GPUs")
    return changes


def _refuse_volumes(context: Context) -> None:
    people = gpu_workspace.wished_people(context.options)
    for name, why in workspace_users.swapped(context, people).items():
        raise places.RefusedError(f"a volume of {name} can be swapped for a link: {why}")


def _refuse_memory(context: Context, wish: dict[str, Any], people: list[dict[str, Any]]) -> None:
    room = traits.size(wish.get("host_memory")) or obstacles.memory(context)
    if room is not None and traits.memory(people) > room:
        raise places.RefusedError(
            f"the people of gpu_workspaces may use {traits.memory(people) >> 20} MiB together; the "
            f"host has {room >> 20} MiB"
        )


def _refuse_ports(context: Context, people: list[dict[str, Any]], runs: dict[str, str]) -> None:
    held = obstacles.held_ports(context, {name: settings.of_person(name) for name in runs})
    for person in people:
        for port in traits.ports(person):
            if port not in held and listening.sockets(context, port):
                raise places.RefusedError(
                    "port {0} of {1} is in use by something else on this host".format(
                        port, person["name"]
                    )
                )


def _refuse_users(
    context: Context, wish: dict[str, Any], seen: dict[str, Any], runs: dict[str, str]
) -> None:
    """RefusedError if a container in use would be stopped."""
    if wish.get("in_use") == "stop":
        return
    names = [name for name in sorted(runs) if name in seen["changes"] or name in seen["gone"]]
    recorded = {name: settings.of_person(name) for name in names}
    counts = obstacles.in_use(context, names, recorded)
    if counts:
        raise places.RefusedError(
            "these people have kernels, terminals or SSH open, and their containers would be "
            "stopped: {0}; let them save and end those, or set gpu_workspace_in_use to "
            "stop".format(", ".join(f"{name} ({counts[name]})" for name in names
                                    if name in counts))
        )  # fmt: skip


def _image(wish: dict[str, Any], people: list[dict[str, Any]]) -> dict[str, Any]:
    """{image, tried, parts} as `look` returns them."""
    tried: set[str] = set()
    for name in settings.recorded_people():
        recorded = settings.of_person(name)
        if recorded.get("image") == wish["image"]:
            tried |= traits.needs(recorded.get("workspace") or {})
    needed: set[str] = set().union(*(traits.needs(person) for person in people))
    has_image = docker.answer("image", "inspect", wish["image"])[0] == 0
    return {"image": has_image, "tried": has_image and needed <= tried, "parts": sorted(needed)}
