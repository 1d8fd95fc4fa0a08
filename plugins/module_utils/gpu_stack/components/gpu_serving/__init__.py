"""The models that a host serves: which, which should be, and which are as wished.

They come from the inventory, not from the lock. Their state is in files, of which serving.json has
the settings and the hash of each unit, and in docker's list of containers. Tokens are compared by
SHA-256, so that none gets into a result.
"""

from __future__ import annotations

import hashlib

from ...change import change, is_touched
from ...host import digests, file_state, mapping
from ...type_checking import TYPE_CHECKING
from ..gpu_workspace.program import docker_words
from . import entries, places, wished

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Stack, State

NAME = "gpu_serving"
PATIENCE = "20"
# Lists the served models whose containers run.
LISTING = (
    *("ps", "--no-trunc", "--filter", "label=" + places.LABEL, "--format"),
    docker_words.shape(f'.Label "{places.LABEL}"', f'.Label "{places.REVISION}"'),
)


# the look


def recorded(context: Context) -> list[str]:
    """Names of the models that have something on this host."""
    return [
        name
        for name in context.listdir(places.PLACE)
        if entries.NAME.fullmatch(name) and name != "door" and context.isdir(places.folder(name))
    ]


def running(context: Context) -> dict[str, str] | None:
    """{name: revision} of the containers that run; None where docker does not answer."""
    answer = context.run(["timeout", PATIENCE, "docker", "--host", docker_words.SOCKET, *LISTING])
    return docker_words.revisions(answer.out) if answer.rc == 0 else None


def model(context: Context, name: str) -> dict[str, Any]:
    """The files of a served model; of its token only the hash."""
    place = places.folder(name) + "/"
    record = mapping.of(context.read(place + places.RECORD))
    token = context.read(place + "token")
    seen = {
        "record": record,
        "token": digests.of_text(token) if token else None,
        "files": {},
        "enabled": False,
    }
    if record is not None:
        paths = record.get("files") or {}
        seen["files"] = {path: _file(context, path, paths[path]) for path in sorted(paths)}
        unit = places.unit(name, record.get("slot") or "a")
        seen["enabled"] = context.lstat(places.WANTS + unit) is not None
    return seen


def _file(context: Context, path: str, sha256: str) -> str | None:
    """What is wrong with a file that a run wrote; None where nothing is."""
    data = context.read_bytes(path)
    if data is None:
        return "absent"
    mode = 0o600 if path == places.DOOR_TOKENS else file_state.MODE
    if hashlib.sha256(data).hexdigest() != sha256:
        return "other content"
    return file_state.fault(context, path, mode)


def look(context: Context) -> dict[str, Any]:
    """{version, models, running, shared}; the last two only where a model is wished for.

    The version is the number of models, for receipts and reports.
    """
    names = recorded(context)
    state: dict[str, Any] = {
        "version": str(len(names)) if names else None,
        "models": {name: model(context, name) for name in names},
        "running": {},
    }
    if wished.models(context.options):
        state["running"] = running(context) if names else {}
    return state


# the plan


def fault(
    name: str, entry: dict[str, Any], seen: dict[str, Any] | None, state: State, options: Options
) -> tuple[str | None, str] | None:
    """(the state, why it is not as wished) of one model; None if it is as wished."""
    if seen is None or seen["record"] is None:
        return None, "wished for, and missing"
    runs = state["running"]
    before, after = seen["record"].get("settings") or {}, wished.settings(entry, options)
    if before != after:
        return "other settings", "changed: " + ", ".join(_differences(before, after))
    if seen["token"] is None:
        return "no token", "nobody could ask it through the front door"
    token = (options.get("gpu_serving_digests") or {}).get(name)
    if token is not None and seen["token"] != token:
        return "another token", "gpu_serving_tokens has changed"
    for path in sorted(seen["files"]):
        if seen["files"][path] is not None:
            return "{0} of {1}".format(seen["files"][path], path), "a run wrote it another way"
    if not seen["enabled"]:
        return "not enabled", "it would not come back after a reboot"
    if runs is None:
        return "unknown", "docker does not answer"
    if name not in runs:
        return "not running", "its container is not there"
    if runs[name] != seen["record"].get("revision"):
        return "runs as before", "its container was started with other settings"
    return None


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The words of a model that differ."""
    old, new = before.get("entry") or {}, after["entry"]
    names = [key for key in sorted(set(old) | set(new)) if old.get(key) != new.get(key)]
    return names + (["image"] if before.get("image") != after["image"] else [])


def differ(_stack: Stack, state: State, options: Options) -> Changes:
    """Changes of the models that differ from the wish, and of no others."""
    wrong = wished.unreadable(options)
    if wrong is not None:
        # The preflight refuses it; nothing is removed for a slip of the pen.
        return [change(NAME, "gpu_servings", None, "a list of models", wrong)]
    models, changes = wished.models(options), []
    for name in sorted(state["models"]):
        if name not in models:
            why = "no longer wished; its directory stays"
            changes.append(change(NAME, "model " + name, "here", None, why))
    for name in sorted(models):
        other = fault(name, models[name], state["models"].get(name), state, options)
        if other is not None:
            changes.append(change(NAME, "model " + name, other[0], "as wished", other[1]))
    return changes


def touched(changes: Changes) -> list[str]:
    """Names of the models that these changes stop or start."""
    prefix = "model "
    items = [row["item"] for row in changes if row["component"] == NAME]
    return [item[len(prefix) :] for item in items if item.startswith(prefix)]


def survey(context: Context, _facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `servings`: what stands in the way of changes, where there are any."""
    if not is_touched(changes, NAME):
        return {}
    from . import obstacles  # which imports this

    return {"servings": obstacles.stands_in_the_way(context, changes)}
