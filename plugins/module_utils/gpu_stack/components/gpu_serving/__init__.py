"""The models that a host serves: which, which should be, and which are as wished.

They come from the inventory, not from the lock. Their state is in files, of which serving.json has
the settings and the hash of each unit, and in docker's list of containers. Tokens are compared by
SHA-256, so that none gets into a result.
"""

from __future__ import annotations

from ...change import change, is_touched
from ...host import digests, file_state, listening, mapping
from ...type_checking import TYPE_CHECKING
from ..gpu_workspace.program import docker_words
from . import door_files, entries, places, wished

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


def record_of(context: Context, name: str) -> dict[str, Any] | None:
    """What a run recorded of a model; None without."""
    return mapping.of(context.read(f"{places.folder(name)}/{places.RECORD}"))


def records(context: Context) -> dict[str, dict[str, Any]]:
    """{name: what a run recorded} of the models that have a record."""
    pairs = ((name, record_of(context, name)) for name in recorded(context))
    return {name: record for name, record in pairs if record}


def model(context: Context, name: str) -> dict[str, Any]:
    """The files of a served model; of its token only the hash.

    `unheld`: the ports that systemd does not hold for it. `left`: the unit of a container that a
    cut off run has not ended.
    """
    path = places.folder(name) + "/token"
    record, token = record_of(context, name), context.read(path)
    seen: dict[str, Any] = {
        "record": record,
        "token": digests.of_text(token) if token else None,
        "files": {path: file_state.fault(context, path, 0o600)},
        "enabled": False,
        "unheld": [],
        "left": None,
    }
    if record is not None:
        files = record.get("files") or {}
        seen["files"].update({file: _file(context, file, files[file]) for file in sorted(files)})
        seen.update(_units(context, name, record))
    return seen


def _units(context: Context, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """{enabled, unheld, left} as `model` has them."""
    entry, slot = (record.get("settings") or {}).get("entry") or {}, record.get("slot") or "a"
    wants = [places.WANTS + places.unit(name, slot)]
    wants += [
        places.PORT_WANTS + places.port_unit(name, protocol)
        for protocol in places.PORTS
        if places.PORTS[protocol][0] in entry
    ]
    other_unit = places.unit(name, places.other(slot))
    return {
        "enabled": all(context.lstat(path) is not None for path in wants),
        "unheld": [port for port in entries.ports(entry) if not holds(context, port)],
        "left": other_unit
        if context.lstat(f"{places.UNITS_PLACE}/{other_unit}") is not None
        else None,
    }


def holds(context: Context, port: int) -> bool:
    """Whether systemd, or else a program of root's, listens on a port of the host."""
    return "0" in listening.sockets(context, port).values()


def _file(context: Context, path: str, sha256: str) -> str | None:
    """What is wrong with a file that a run wrote; None where nothing is."""
    digest = digests.of_file(context, path)
    if digest != sha256:
        return "absent" if digest is None else "other content"
    return file_state.fault(context, path, file_state.MODE)


def ways(context: Context, records_of: dict[str, dict[str, Any]]) -> dict[str, str]:
    """{path: text} of the files by which the front door leads to the models of these records."""
    tokens = {name: context.read(places.folder(name) + "/token") or "" for name in records_of}
    return door_files.texts(records_of, tokens)


def door(context: Context, records_of: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    """{path: what is wrong, or None} of those files."""
    texts = ways(context, records_of)
    seen: dict[str, str | None] = {}
    for path, mode in places.DOOR_MODES.items():
        text = context.read(path)
        wrong = "absent" if text is None else "other content"
        seen[path] = file_state.fault(context, path, mode) if text == texts[path] else wrong
    if context.lstat(places.DOOR_UNREAD) is not None:
        seen[places.DOOR_UNREAD] = "not read by nginx"
    return seen


def look(context: Context) -> dict[str, Any]:
    """{version, models, running, door}; the last two only where a model is wished for.

    The version is the number of models, for receipts and reports.
    """
    names = recorded(context)
    models = {name: model(context, name) for name in names}
    state: dict[str, Any] = {
        "version": str(len(names)) if names else None,
        "models": models,
        "running": {},
    }
    if wished.models(context.options):
        records_of = {name: models[name]["record"] for name in names if models[name]["record"]}
        state["running"] = running(context) if names else {}
        state["door"] = door(context, records_of) if records_of else {}
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
    wrong = _fault_of_files(seen)
    if wrong is not None:
        return wrong
    if runs is None:
        return "unknown", "docker does not answer"
    if name not in runs:
        return "not running", "its container is not there"
    if runs[name] != seen["record"].get("revision"):
        return "runs as before", "its container was started with other settings"
    return None


def _fault_of_files(seen: dict[str, Any]) -> tuple[str, str] | None:
    """As `fault`, for a model's files, units and ports."""
    for path in sorted(seen["files"]):
        if seen["files"][path] is not None:
            return "{0} of {1}".format(seen["files"][path], path), "a run wrote it another way"
    if seen["left"] is not None:
        return "twice", "a run was cut off before it ended {0}".format(seen["left"])
    if not seen["enabled"]:
        return "not enabled", "it would not come back after a reboot"
    if seen["unheld"]:
        ports = ", ".join(map(str, seen["unheld"]))
        return f"port {ports} not held", "another program could open it, and be asked"
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
        difference = fault(name, models[name], state["models"].get(name), state, options)
        if difference is not None:
            changes.append(change(NAME, "model " + name, difference[0], "as wished", difference[1]))
    faults = (models and state.get("door")) or {}
    changes += [
        change(NAME, path, faults[path], "as written", "the front door leads to models by it")
        for path in sorted(faults)
        if faults[path] is not None
    ]
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
