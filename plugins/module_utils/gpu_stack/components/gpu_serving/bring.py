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
from ..gpu_front_door.renewal import programs as door_programs
from ..gpu_front_door.renewal.state import nginx_runs
from ..gpu_workspace.program import command, docker, docker_words, files, programs
from ..gpu_workspace.program.places import RefusedError
from . import asking, current, door_files, network, places, proof, saved_model, units, wished

if TYPE_CHECKING:
    from typing import Any

PROXIES = ("/usr/lib/systemd/systemd-socket-proxyd", "/lib/systemd/systemd-socket-proxyd")


def fulfil(wish: dict[str, Any], seen: dict[str, Any], image: str, patience: float) -> list[str]:
    """Changes the models that differ from the wish, by what `current.look` saw; their names.

    RefusedError for those that do not come up; whatever served before serves still.
    """
    models = {entry["name"]: entry for entry in wished.models(wished.options(wish)).values()}
    for name in seen["gone"]:
        remove(name)
    if not models:
        forget_all()
        return []
    host = current.context(wish)
    allocated = current.gpus(wish)
    chosen = network.made()
    changed, wrong = [], []
    for name in sorted(seen["changes"]):
        _token(name, (wish["tokens"] or {}).get(name))
        entry = models[name]
        try:
            _swap(
                {
                    "name": name,
                    "settings": wished.settings(entry, dict(host.options, gpu_serving_image=image)),
                    "gpus": command.gpu_words(allocated[name]),
                    "indices": allocated[name],
                    "newest": saved_model.newest(host, entry["models"]),
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
    record = files.data(f"{places.folder(name)}/{places.RECORD}")
    return record if isinstance(record, dict) else {}


def names() -> list[str]:
    """The models that have something on this host."""
    return gpu_serving.recorded(current.context(current.NOTHING))


def _token(name: str, given: str | None) -> None:
    """A model's token: the one that was given, the one that is there, or a new one."""
    path = places.folder(name) + "/token"
    os.makedirs(files.inside(places.folder(name)), mode=0o700, exist_ok=True)
    token = given or files.text(path) or secrets.token_hex(24)
    if token != files.text(path):
        files.put(path, token, 0o600)


def _swap(wish: dict[str, Any]) -> None:
    """Starts a model in its other place, waits until it serves, leads there, and ends the former.

    Where both have no room on a GPU the former is stopped first, and started again where the new
    one does not come up.
    """
    name, settings = wish["name"], wish["settings"]
    record = record_of(name)
    former = record.get("slot")
    slot = places.other(former) if former else places.SLOTS[0]
    taken = {
        address
        for other in names()
        if other != name
        for address in (record_of(other).get("addresses") or {}).values()
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
    wrong = serves(name, slot, addresses[slot], wish["newest"], wish["patience"])
    if wrong is not None:
        _end(name, slot)
        still = ""
        if former:
            programs.call(["systemctl", "start", "--no-block", places.unit(name, former)])
            still = "; the former one serves on"
        raise RefusedError(wrong + still)
    programs.must(
        programs.call(["systemctl", "enable", places.unit(name, slot)]), "systemctl enable"
    )
    ways = _lead_ports(name, settings["entry"], addresses[slot])
    paths = {path, *ways}
    record = {
        "settings": settings,
        "gpus": wish["indices"],
        "slot": slot,
        "addresses": addresses,
        "revision": revision,
        "files": {one: _sha256(one) for one in sorted(paths)},
    }
    files.put(
        f"{places.folder(name)}/{places.RECORD}",
        json.dumps(record, indent=2, sort_keys=True) + "\n",
        0o600,
    )
    if former:
        lead()
        _end(name, former)


def _fit_together(record: dict[str, Any], indices: Any, entry: dict[str, Any]) -> bool:
    """Whether the former container and a new one have room on the GPUs that both have."""
    former = record.get("gpus")
    shared = indices and former and ("all" in (indices, former) or set(indices) & set(former))
    # Without a share TensorFlow takes all that is free.
    shares = (record["settings"]["entry"]["gpu_memory"] or 1) + (entry["gpu_memory"] or 1)
    return not shared or shares <= 1


def serves(name: str, slot: str, address: str, newest: int | None, patience: float) -> str | None:
    """Why a model does not serve its newest version; None where it does. Waits for it."""
    until = time.time() + patience
    while True:
        _status, answer = asking.ask(address, places.REST, f"/v1/models/{name}", patience=5)
        states = asking.versions(answer)
        wait, wrong = asking.judged(states, newest)
        if wrong is None:
            return None
        if (states and not wait) or time.time() > until:
            return wrong if states else "it does not answer: " + proof.last_words(name, slot)
        time.sleep(1)


def _refuse_strangers(name: str, slot: str) -> None:
    """RefusedError for a container that has our name and is not ours."""
    form = docker_words.shape(f'index .Config.Labels "{places.LABEL}"')
    code, out, _error = docker.answer("inspect", "--format", form, places.container(name, slot))
    if code == 0 and out.strip() != name:
        raise RefusedError(
            f"the container {places.container(name, slot)} is not of gpu_servings; rename it first"
        )


def _lead_ports(name: str, entry: dict[str, Any], address: str) -> list[str]:
    """systemd's sockets on the host's ports lead to this address; paths of their units."""
    proxy = next((path for path in PROXIES if os.path.exists(path)), PROXIES[0])
    ways = units.ways(entry, address, proxy)
    _close_ports(name, keep=[unit for unit in ways if _unit_text(unit) == ways[unit]])
    for unit, text in ways.items():
        files.put(f"{places.UNITS_PLACE}/{unit}", text, 0o644)
    _reload_systemd()
    # One that leads to the former place; systemd starts it again for the next connection.
    programs.call(["systemctl", "stop", *[unit for unit in ways if unit.endswith(".service")]])
    sockets = [unit for unit in ways if unit.endswith(".socket")]
    programs.must(programs.call(["systemctl", "enable", *sockets]), "systemctl enable")
    programs.must(programs.call(["systemctl", "start", *sockets]), "systemctl start")
    return [f"{places.UNITS_PLACE}/{unit}" for unit in ways]


def _unit_text(unit: str) -> str | None:
    return files.text(f"{places.UNITS_PLACE}/{unit}")


def _close_ports(name: str, keep: list[str] | None = None) -> None:
    """Closes the sockets of a model but those of `keep`, and removes their units."""
    for what in ("rest", "grpc"):
        socket, service = (places.port_unit(name, what, kind) for kind in ("socket", "service"))
        if socket in (keep or []):
            continue
        for unit in (socket, service):
            if _unit_text(unit) is not None:
                programs.call(["systemctl", "disable", "--now", unit], timeout=120)
                os.unlink(files.inside(f"{places.UNITS_PLACE}/{unit}"))


def _end(name: str, slot: str) -> None:
    """Stops a model's container and removes its unit."""
    unit = places.unit(name, slot)
    programs.call(["systemctl", "disable", "--now", unit], timeout=180)
    if _unit_text(unit) is not None:
        os.unlink(files.inside(f"{places.UNITS_PLACE}/{unit}"))
    _reload_systemd()
    programs.call(["systemctl", "reset-failed", unit])


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
    """The front door's nginx leads to the models that are here, where there is a door.

    The ways name variables of the tokens' file, which nginx has to know: of the two files the one
    with ways goes first and comes last.
    """
    models = {name: record_of(name) for name in names()}
    models = {name: models[name] for name in models if models[name]}
    tokens = {name: files.text(places.folder(name) + "/token") or "" for name in models}
    before = [files.text(path) for path in (places.DOOR_TOKENS, places.DOOR_PATHS)]
    after = [
        door_files.tokens(tokens),
        door_files.paths(
            {
                name: {
                    "address": record["addresses"][record["slot"]],
                    "files": record["settings"]["entry"]["files"],
                }
                for name, record in models.items()
            }
        ),
    ]
    if before == after:
        return
    os.makedirs(files.inside(places.DOOR), mode=0o755, exist_ok=True)
    if before[1] is not None:
        os.unlink(files.inside(places.DOOR_PATHS))
    files.put(places.DOOR_TOKENS, after[0], 0o600)
    files.put(places.DOOR_PATHS, after[1], 0o644)
    if files.data(door_paths.DOOR) and nginx_runs(current.context(current.NOTHING)):
        taken, error = nginx.takes()
        if not taken:
            os.unlink(files.inside(places.DOOR_PATHS))
            raise RefusedError(f"nginx rejects the ways to the models: {error.strip()[-400:]}")
        door_programs.must(nginx.reload(), "systemctl reload nginx")


def _reload_systemd() -> None:
    programs.must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")


def _sha256(path: str) -> str:
    with open(files.inside(path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
