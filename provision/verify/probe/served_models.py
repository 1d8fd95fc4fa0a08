"""Served models, as anybody of the host sees them, without a token."""

from __future__ import annotations

import itertools
import json
import os
import re
from typing import Any

from .parts import part
from .system import ANSWER_LIMIT, cut_off, run
from .workspaces import through


def model_versions(port: int, name: str) -> list[dict[str, Any]] | None:
    """The versions of a served model as TensorFlow Serving has them; None where nothing answers.

    Who answers is not trusted: PATIENCE seconds at most, and of its words printable ones alone.
    """
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.connect()
        with cut_off(connection.sock):
            connection.request("GET", f"/v1/models/{name}")
            body = connection.getresponse().read(ANSWER_LIMIT)
        answer = json.loads(body.decode("utf-8", "replace"))
        rows = answer["model_version_status"]
        return [
            {
                "version": str(row["version"]),
                "state": str(row["state"])[:20],
                "error": printable(str(row["status"].get("error_message") or "")),
            }
            for row in rows
            if re.fullmatch(r"[0-9]{1,19}", str(row["version"]))
        ]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None
    except RecursionError:
        return None
    finally:
        connection.close()


def printable(text: str) -> str:
    """One line of what the owner of a model worded, which a terminal may show."""
    return re.sub(r"[^ -~]+", " ", text[:300]).strip()


def version_directories(path: str) -> list[str] | None:
    """The versions that a model's directory has; None where that can't be read."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in itertools.islice(entries, 10000)]
    except OSError:
        return None
    return sorted(str(int(name)) for name in names if re.fullmatch(r"[0-9]{1,19}", name))


@part
def of_served_models(_row: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """{name: {unit, port, versions, there, door}} of the models.

    `unit` and `port`: the states of the container's unit and of that which holds its port; `there`:
    the versions on the disk; `door`: its status without a token.
    """
    answers = {}
    for model in options.get("gpu_servings") or []:
        name = model["name"]
        units = [f"gpu-serving-{name}.{slot}.service" for slot in "ab"]
        states = run(["systemctl", "is-active", *units])["stdout"].split()
        port = run(["systemctl", "is-active", f"gpu-serving-{name}.rest.socket"])["stdout"]
        status = None
        if options.get("gpu_front_door_name"):
            door = {key: options["gpu_front_door_" + key] for key in ("name", "port", "address")}
            status = through(door, f"/serving/{name}/v1/models/{name}")["status"]
        answers[name] = {
            "unit": "active" if "active" in states else (states or ["not there"])[0],
            "port": port.strip() or "not there",
            "versions": model_versions(model["port"], name),
            "there": version_directories(model["models"]),
            "door": status,
        }
    return {"served_models": answers} if answers else {}
