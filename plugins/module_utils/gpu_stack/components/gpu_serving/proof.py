"""Proves that each model is served: its version, its prediction, and the door with its token."""

from __future__ import annotations

import http.client
import time

from ...type_checking import TYPE_CHECKING
from ..gpu_front_door import proof as of_door
from ..gpu_front_door.renewal.noted import noted
from ..gpu_workspace.program import files, programs
from ..gpu_workspace.program.places import RefusedError
from . import asking, current, places, prediction, saved_model

if TYPE_CHECKING:
    from typing import Any


def last_words(name: str, slot: str) -> str:
    """What a container's unit said last."""
    unit = places.unit(name, slot)
    words = ["journalctl", "--unit", unit, "--lines", "5", "--output", "cat", "--no-pager"]
    lines = [line for line in programs.call(words)[1].splitlines() if line.strip()]
    return asking.plain(" / ".join(lines[-3:])) or "nothing"


def prove(records: dict[str, dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    """{proven, versions, compared, not_compared}; RefusedError with all that is wrong."""
    until = time.time() + float(params["patience"])
    result: dict[str, Any] = {"proven": [], "versions": {}, "not_compared": {}}
    wrong = []
    for name in sorted(records):
        record = records[name]
        entry, slot = record["settings"]["entry"], record["slot"]
        address = record["addresses"][slot]
        fault, version = served(name, entry, address, slot, until)
        if fault is None and entry["compare"] and params["python"]:
            fault, why = _compared(entry, address, version, params)
            if fault and served(name, entry, address, slot, until)[1] != version:
                fault, why = None, "a newer version came meanwhile"
            if why:
                result["not_compared"][name] = why
        fault = fault or ways(name, entry)
        if fault is not None:
            wrong.append(f"{name}: {fault}")
            continue
        result["proven"].append(name)
        result["versions"][name] = version
    if wrong:
        raise RefusedError("; ".join(wrong))
    return result


def _compared(
    entry: dict[str, Any], address: str, version: int, params: dict[str, Any]
) -> tuple[str | None, str | None]:
    """(what differs of a prediction and TensorFlow's own, why that was not compared)."""
    names = saved_model.versions(current.context(current.NOTHING), entry["models"])
    if version not in names:
        return None, f"version {version} is served, and its directory is gone"
    path = "{0}/{1}".format(entry["models"], names[version])
    answer = prediction.expected(entry, path, params["python"], params["program"])
    if "none" in answer:
        return None, answer["none"]
    return prediction.compared(entry, address, answer), None


def served(
    name: str, entry: dict[str, Any], address: str, slot: str, until: float
) -> tuple[str | None, int]:
    """(why a model does not serve its newest version or None, what it serves). Waits for it.

    The directory is its owner's, and may change at any time: it is read anew each time.
    """
    host = current.context(current.NOTHING)
    while True:
        newest = saved_model.newest(host, entry["models"])
        _status, answer = asking.ask(address, places.REST, f"/v1/models/{name}", patience=5)
        states = asking.versions(answer)
        wait, wrong = asking.judged(states, newest)
        if wrong is None or (states and not wait) or time.time() > until:
            if wrong is not None and not states:
                wrong = "it does not answer: " + last_words(name, slot)
            return wrong, asking.serving(states) or 0
        time.sleep(1)


def ways(name: str, entry: dict[str, Any]) -> str | None:
    """What is wrong with a model's port and its way through the front door; None: nothing."""
    path = f"/v1/models/{name}"
    if asking.ask("127.0.0.1", entry["port"], path)[0] != 200:
        return "port {0} does not lead to it".format(entry["port"])
    door = noted()
    if door is None or not (door.get("settings") or {}).get("serving"):
        return None
    token = (files.text(places.folder(name) + "/token") or "").strip()
    bearers: tuple[tuple[str | None, int], ...] = ((token, 200), (None, 401), ("x" * 24, 401))
    for bearer, wanted in bearers:
        headers = {"Authorization": "Bearer " + bearer} if bearer else {}
        try:
            status = of_door.get(door["settings"], f"/serving/{name}{path}", headers=headers)[0]
        except (OSError, http.client.HTTPException) as error:
            return f"the front door does not answer: {error}"
        if status != wanted:
            who = "its token" if bearer == token else "another token" if bearer else "no token"
            return f"the front door answers {status} to {who}, and not {wanted}"
    return None
