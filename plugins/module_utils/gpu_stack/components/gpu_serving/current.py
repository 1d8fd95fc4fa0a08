"""Finds the models that are not as wished, and refuses changes that can't be made."""

from __future__ import annotations

from ...host import gpu_shares as share
from ...host.context import Context, Result
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving
from ..gpu_workspace import allocation
from ..gpu_workspace.program import files, handed_gpus, people_list, programs, settings
from ..gpu_workspace.program.places import RefusedError
from . import entries, obstacles, saved_model, wished

if TYPE_CHECKING:
    from typing import Any

# The wish of a host that serves nothing.
NOTHING: dict[str, Any] = {"servings": [], "image": "", "tokens": {}}


def context(wish: dict[str, Any]) -> Context:
    """The module's own host as the look has it."""
    return Context(
        root=files.ROOT,
        options=wished.options(wish),
        runner=lambda argv: Result(*programs.call(list(argv))),
    )


def look(wish: dict[str, Any]) -> dict[str, Any]:
    """{changes: {name: why}, gone: names, door: paths}; changes nothing.

    `door`: the files by which the front door leads to models and which are not as they should be.
    RefusedError for what can't be done.
    """
    models = {entry["name"]: entry for entry in entries.checked(wish["servings"])}
    _refuse_tokens(wish["tokens"], models)
    host = context(wish)
    recorded = gpu_serving.recorded(host)
    seen: dict[str, Any] = {
        "changes": {},
        "gone": [name for name in recorded if name not in models],
        "door": [],
    }
    if not models:
        return seen
    runs = gpu_serving.running(host)
    if runs is None:
        raise RefusedError("docker does not answer, and models are served by its containers")
    state = {"running": runs}
    for name, entry in models.items():
        present = gpu_serving.model(host, name) if name in recorded else None
        wrong = gpu_serving.fault(name, entry, present, state, host.options)
        if wrong is not None:
            seen["changes"][name] = wrong[0] or "absent"
    seen["door"] = door(host)
    changed = [models[name] for name in seen["changes"]]
    _refuse_directories(host, models, changed)
    for port in obstacles.used_ports(host, changed):
        raise RefusedError(f"port {port} is in use by something else on this host")
    return seen


def door(host: Context) -> list[str]:
    """The door's files that are not as the models that are here need them."""
    records = gpu_serving.records(host)
    seen = gpu_serving.door(host, records) if records else {}
    return sorted(path for path in seen if seen[path] is not None)


def _refuse_tokens(tokens: dict[str, Any], models: dict[str, Any]) -> None:
    strangers = sorted(set(tokens) - set(models))
    if strangers and models:
        raise RefusedError(
            "gpu_serving_tokens names {0}, and gpu_servings has no such model".format(
                ", ".join(strangers)
            )
        )
    for name in sorted(tokens):
        if not isinstance(tokens[name], str) or entries.TOKEN.fullmatch(tokens[name]) is None:
            raise RefusedError(
                f"the token of {name} in gpu_serving_tokens is no text of 16 to 256 letters, "
                "digits and . _ ~ + / = -"
            )


def _refuse_directories(
    host: Context, models: dict[str, dict[str, Any]], changed: list[dict[str, Any]]
) -> None:
    for name, why in obstacles.swapped(host, models).items():
        raise RefusedError(f"a directory of the model {name} can be swapped for a link: {why}")
    for entry in changed:
        directory = obstacles.directory(host, entry)
        unfit = _unfit(entry, directory)
        if unfit is not None:
            raise RefusedError("{models}, of the model {name}, {0}".format(unfit, **entry))


def _unfit(entry: dict[str, Any], directory: dict[str, Any]) -> str | None:
    """Why nothing can be served of a directory; None: something can."""
    if directory["crowded"]:
        return f"has more than {saved_model.MOST} entries"
    if directory["closed"]:
        return "is not to be read by uid {0}: {1}".format(entry["user"], directory["closed"])
    if not directory["files"]:
        return "or its files are missing"
    if directory["newest"] is None:
        return "has no version, as {0}/1/saved_model.pb".format(entry["models"])
    return None


def gpus(wish: dict[str, Any]) -> dict[str, Any]:
    """{name: "all", [] or [indices]} of the models; RefusedError for a GPU that is promised twice.

    Slurm's are promised too, and those that people's workspaces have already.
    """
    models = entries.checked(wish["servings"])
    if all(entry["gpus"] == "none" for entry in models):
        return {entry["name"]: [] for entry in models}
    people = []
    for name in settings.recorded_people():
        person = settings.of_person(name).get("workspace") or {}
        indices = allocation.kept().get(name)
        people.append(
            {
                "name": name,
                "gpus": indices or "none",
                "shared": person.get("shared", False),
            }
        )
    takers = people_list.takers_of(models)
    try:
        people_list.refuse_promised_twice(people + takers)
        uuids = handed_gpus.gpus()
        # What a person has of Slurm's is no model's fault.
        allocation.allocated(takers, uuids, {}, share.of_slurm(wish["slurm"], len(uuids)))
        allocated = allocation.allocated(people + takers, uuids, {})
    except ValueError as error:
        raise RefusedError(str(error)) from None
    return {entry["name"]: allocated["model " + entry["name"]] for entry in models}
