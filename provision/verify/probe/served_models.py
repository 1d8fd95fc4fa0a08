"""Served models, as anybody of the host sees them, without a token."""

from __future__ import annotations

import json
from typing import Any

from .parts import part
from .system import run
from .workspaces import through


def model_versions(port: int, name: str) -> list[dict[str, Any]] | None:
    """The versions of a served model as TensorFlow Serving has them; None where nothing answers."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", f"/v1/models/{name}")
        answer = json.loads(connection.getresponse().read(1 << 20).decode("utf-8", "replace"))
        rows = answer["model_version_status"]
        return [
            {
                "version": str(row["version"])[:20],
                "state": str(row["state"])[:20],
                "error": str(row["status"].get("error_message") or "")[:300],
            }
            for row in rows
        ]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None
    finally:
        connection.close()


@part
def of_served_models(_row: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """{name: {unit, versions, door}} of the models; `door`: its status without a token."""
    answers = {}
    for model in options.get("gpu_servings") or []:
        name = model["name"]
        units = [f"gpu-serving-{name}.{slot}.service" for slot in "ab"]
        states = run(["systemctl", "is-active", *units])["stdout"].split()
        status = None
        if options.get("gpu_front_door_name"):
            door = {key: options["gpu_front_door_" + key] for key in ("name", "port", "address")}
            status = through(door, f"/serving/{name}/v1/models/{name}")["status"]
        answers[name] = {
            "unit": "active" if "active" in states else (states or ["not there"])[0],
            "versions": model_versions(model["port"], name),
            "door": status,
        }
    return {"served_models": answers} if answers else {}
