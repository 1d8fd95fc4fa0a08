"""Makes the served models as wished: a changed one beside the former, which goes when it serves."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time

from ...host import digests
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving
from ..gpu_front_door.renewal import nginx
from ..gpu_front_door.renewal import paths as door_paths
from ..gpu_front_door.renewal.state import nginx_runs
from ..gpu_workspace.program import command, docker, docker_words, files, programs
from ..gpu_workspace.program.places import RefusedError
from . import current, entries, network, places, proof, units, wished

if TYPE_CHECKING:
    from typing import Any, Mapping

PROXIES = ("/usr/lib/systemd/systemd-socket-proxyd", "/lib/systemd/systemd-socket-proxyd")


def fulfil(
    wish: dict[str, Any], seen: dict[str, Any], image: dict[str, str], patience: float
) -> list[str]:
    """Changes the models that differ from the wish, by what `current.look` saw; their names.

    `image`: its name in docker, and the TensorFlow that it has as "2.9". RefusedError for models
    that do not come up; whatever served before serves still.
    """
    models = {entry["name"]: entry for entry in wished.models(wished.options(wish)).values()}
    for name in seen["gone"]:
        remove(name)
    if not models:
        forget_all()
        return []
    changed, wrong = [], []
    if seen["changes"]:
        options = dict(wished.options(wish), gpu_serving_image=image["image"])
        allocated, chosen = current.gpus(wish), network.made()
        _free_ports([models[name] for name in seen["changes"]])
    for name in sorted(seen["changes"]):
        _token(name, (wish["tokens"] or {}).get(name))
        gpus = models[name]["gpus"]
        try:
            _swap(
                {
                    "name": name,
                    "settings": wished.settings(models[name], options),
                    # A UUID is docker's to look up: the index of its GPU may be another tomorrow.
                    "gpus": command.gpu_words(gpus if isinstance(gpus, list) else allocated[name]),
                    "indices": allocated[name],
                    "release": image["release"],
                    "chosen": chosen,
                    "patience": patience,
                }
            )
            changed.append(name)
        except RefusedError as error:
            wrong.append(f"{name}: {error}")
    lead()
    if wrong:
        raise RefusedError("; ".join(wrong))
    return changed


def record_of(name: str) -> dict[str, Any]:
    """What a run recorded of a model; {} without."""
    return gpu_serving.record_of(current.context(current.NOTHING), name) or {}


def names() -> list[str]:
    """The models that have something on this host."""
    return gpu_serving.recorded(current.context(current.NOTHING))


def _token(name: str, given: str | None) -> None:
    """A model's token: the one that was given, the one that is there, or a new one."""
    path = places.folder(name) + "/token"
    os.makedirs(files.inside(places.folder(name)), mode=0o700, exist_ok=True)
    # Written anew where it is the same: its mode may be another.
    files.put(path, given or files.text(path) or secrets.token_hex(24), 0o600)


def _swap(wish: dict[str, Any]) -> None:
    """Starts a model in its other slot, waits until it serves, routes there, and ends the former.

    Where both together don't fit on a GPU the former is stopped first, and started again if the
    new one does not come up.
    """
    name, settings = wish["name"], wish["settings"]
    record = record_of(name)
    former = record.get("slot")
    slot = places.other(former) if former else places.SLOTS[0]
    taken = {
        address
        for other_name in names()
        if other_name != name
        for address in (record_of(other_name).get("addresses") or {}).values()
    }
    addresses = network.addresses(wish["chosen"], record.get("addresses"), taken)
    revision = digests.of_text(json.dumps([settings, wish["gpus"], secrets.token_hex(8)]))[:16]
    text = units.container(settings, wish["gpus"], slot, addresses[slot], revision)
    _refuse_strangers(name, slot)
    path = f"{places.UNITS_PLACE}/{places.unit(name, slot)}"
    files.put(path, text, 0o644)
    _reload_systemd()
    if former and not _fit_together(record, wish["indices"], settings["entry"]):
        programs.call(["systemctl", "stop", places.unit(name, former)], timeout=120)
    programs.call(["systemctl", "restart", "--no-block", places.unit(name, slot)])
    until = time.time() + wish["patience"]
    wrong = proof.served(name, settings["entry"], addresses[slot], slot, until)[0]
    if wrong is not None:
        raise RefusedError(wrong + _back(wish, slot, record))
    try:
        programs.must(
            programs.call(["systemctl", "enable", places.unit(name, slot)]), "systemctl enable"
        )
        ways = _lead_ports(name, settings["entry"], addresses[slot])
    except RefusedError as error:
        raise RefusedError(f"{error}{_back(wish, slot, record)}") from None
    record = {
        "settings": settings,
        "release": wish["release"],
        "gpus": wish["indices"],
        "slot": slot,
        "addresses": addresses,
        "revision": revision,
        "files": {file: _sha256(file) for file in sorted({path, *ways})},
    }
    files.put(
        f"{places.folder(name)}/{places.RECORD}",
        json.dumps(record, indent=2, sort_keys=True) + "\n",
        0o600,
    )
    if former:
        lead()
        _end(name, former)


def _back(wish: dict[str, Any], slot: str, record: dict[str, Any]) -> str:
    """Ends what was just started; the former one serves on, if there is one: the words for it."""
    try:
        _end(wish["name"], slot)
        left = ""
    except RefusedError as error:
        left = f"; {error}"
    return left + _serve_former(wish, record)


def _serve_former(wish: dict[str, Any], record: dict[str, Any]) -> str:
    """Starts the former container where it was stopped, and leads its ports to it; the words."""
    name, former = wish["name"], record.get("slot")
    if not former:
        _close_ports(name)
        return ""
    programs.call(["systemctl", "start", "--no-block", places.unit(name, former)])
    try:
        _lead_ports(name, record["settings"]["entry"], record["addresses"][former])
    except RefusedError as error:
        return f"; the former one serves on, and not at its port: {error}"
    if record.get("gpus") != wish["indices"]:
        # Workspaces were changed before, and one may have got them.
        gpus = record.get("gpus") or ["none"]
        listed = gpus if isinstance(gpus, str) else ", ".join(map(str, gpus))
        return f"; the former one serves on, with its former GPUs ({listed})"
    return "; the former one serves on"


def _fit_together(record: dict[str, Any], indices: Any, entry: dict[str, Any]) -> bool:
    """Whether the former container and a new one have room on the GPUs that both have."""
    former = record.get("gpus")
    shared = indices and former and ("all" in (indices, former) or set(indices) & set(former))
    # Without a share TensorFlow takes all that is free.
    shares = (record["settings"]["entry"]["gpu_memory"] or 1) + (entry["gpu_memory"] or 1)
    return not shared or shares <= 1


def _refuse_strangers(name: str, slot: str) -> None:
    """RefusedError for a container that has our name and is not ours."""
    form = docker_words.shape(f'index .Config.Labels "{places.LABEL}"')
    code, out, _error = docker.answer("inspect", "--format", form, places.container(name, slot))
    if code == 0 and out.strip() != name:
        raise RefusedError(
            f"the container {places.container(name, slot)} is not of gpu_servings; rename it first"
        )


def _free_ports(changed: list[dict[str, Any]]) -> None:
    """Closes the ports of models that another one is to have: two may exchange theirs."""
    wanted = {port: entry["name"] for entry in changed for port in entries.ports(entry)}
    for name in names():
        entry = (record_of(name).get("settings") or {}).get("entry") or {}
        if any(wanted.get(port, name) != name for port in entries.ports(entry)):
            _close_ports(name)


def _lead_ports(name: str, entry: dict[str, Any], address: str) -> list[str]:
    """systemd's sockets on the host's ports lead to this address; paths of their units."""
    proxy = next((path for path in PROXIES if os.path.exists(path)), PROXIES[0])
    ways = units.ways(entry, address, proxy)
    same = [unit for unit in ways if _unit_text(unit) == ways[unit]]
    _close_ports(name, keep=same)
    # Those that are the same as well: their modes may be others.
    for unit, text in ways.items():
        files.put(f"{places.UNITS_PLACE}/{unit}", text, 0o644)
    _reload_systemd()
    # One that leads to the former place; systemd starts it again for the next connection.
    relays = [unit for unit in ways if unit.endswith(".service") and unit not in same]
    if relays:
        programs.call(["systemctl", "stop", *relays])
    sockets = [unit for unit in ways if unit.endswith(".socket")]
    programs.must(programs.call(["systemctl", "enable", *sockets]), "systemctl enable")
    programs.must(programs.call(["systemctl", "start", *sockets]), "systemctl start")
    return [f"{places.UNITS_PLACE}/{unit}" for unit in ways]


def _unit_text(unit: str) -> str | None:
    return files.text(f"{places.UNITS_PLACE}/{unit}")


def _close_ports(name: str, keep: list[str] | None = None) -> None:
    """Closes the sockets of a model but those of `keep`, and removes their units."""
    for protocol in ("rest", "grpc"):
        socket, service = (places.port_unit(name, protocol, kind) for kind in ("socket", "service"))
        if socket in (keep or []):
            continue
        there = [unit for unit in (socket, service) if _unit_text(unit) is not None]
        if there:
            # systemd knows a unit whose file somebody removed, and holds its port on.
            programs.call(["systemctl", "stop", socket, service], timeout=120)
            programs.call(["systemctl", "disable", *there])
        for unit in there:
            os.unlink(files.inside(f"{places.UNITS_PLACE}/{unit}"))


def _end(name: str, slot: str) -> None:
    """Stops a model's container and removes its unit.

    RefusedError where the container may still run: the unit stays then, by which the next run
    knows that there is something to end.
    """
    unit = places.unit(name, slot)
    code, _out, error = programs.call(["systemctl", "disable", "--now", unit], timeout=180)
    if code == 124:
        raise RefusedError(
            f"{unit} does not stop ({error}), and its container may still have its GPUs: "
            "`systemctl status docker` says more; the next run ends it"
        )
    _end_outliving(name, slot)
    if _unit_text(unit) is not None:
        os.unlink(files.inside(f"{places.UNITS_PLACE}/{unit}"))
    _reload_systemd()
    programs.call(["systemctl", "reset-failed", unit])


def _end_outliving(name: str, slot: str) -> None:
    """Ends a container that outlives its unit: docker did not answer while systemd stopped that."""
    container = places.container(name, slot)
    form = docker_words.shape(".State.Running", f'index .Config.Labels "{places.LABEL}"')
    code, out, _error = docker.answer("inspect", "--format", form, container, timeout=60)
    if code == 0 and out.split() == ["true", name]:
        programs.must(docker.answer("rm", "--force", container, timeout=60), "docker rm")


def remove(name: str) -> None:
    """Stops a model and forgets it; its directory stays."""
    _close_ports(name)
    for slot in places.SLOTS:
        if _unit_text(places.unit(name, slot)) is not None:
            _end(name, slot)
    shutil.rmtree(files.inside(places.folder(name)), ignore_errors=True)
    lead()


def forget_all() -> None:
    """Removes what all models have together."""
    network.remove()
    if os.path.isdir(files.inside(places.PLACE)):
        shutil.rmtree(files.inside(places.PLACE))


def lead() -> None:
    """The front door's nginx leads to the models that are here, where there is a door."""
    host = current.context(current.NOTHING)
    # As the look has them: a model that never came up has a token, and no way.
    texts = gpu_serving.ways(host, gpu_serving.records(host))
    before = {path: files.text(path) for path in texts}
    if before == texts and not current.door(host):
        return
    os.makedirs(files.inside(places.DOOR), mode=0o755, exist_ok=True)
    # A run may be killed before nginx has read what is as wished then.
    files.put(places.DOOR_UNREAD, "", 0o600)
    _write_ways(texts)
    if files.data(door_paths.DOOR) and nginx_runs(host):
        taken, error = nginx.takes()
        if not taken:
            _write_ways(before)
            raise RefusedError(
                "nginx rejects the ways to the models, and has the former ones again: "
                f"{error.strip()[-400:]}"
            )
        programs.must(nginx.reload(), "systemctl reload nginx")
    os.unlink(files.inside(places.DOOR_UNREAD))


def _write_ways(texts: Mapping[str, str | None]) -> None:
    """Writes the door's two files, or removes one without a text.

    The ways name variables of the tokens' file, which nginx has to know: of the two the one with
    ways goes first and comes last.
    """
    for path in (places.DOOR_PATHS, places.DOOR_TOKENS):
        if os.path.lexists(files.inside(path)):
            os.unlink(files.inside(path))
    for path, mode in places.DOOR_MODES.items():
        text = texts[path]
        if text is not None:
            files.put(path, text, mode)


def _reload_systemd() -> None:
    programs.must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")


def _sha256(path: str) -> str:
    with open(files.inside(path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
