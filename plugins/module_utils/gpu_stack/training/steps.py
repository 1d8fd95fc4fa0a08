"""What the module `gpu_training` does, step by step."""

from __future__ import annotations

import json

from ..host.context import Context
from ..type_checking import TYPE_CHECKING
from . import jobs, look, ports

if TYPE_CHECKING:
    from typing import Any

STEPS = ("look", "listen", "reach", "start", "read", "stop", "list")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """{changed, training} of a step. Check mode starts and stops nothing."""
    context = Context()
    step = params["step"]
    if step == "look":
        return _said(look.look(context, params))
    if step == "listen":
        return _said(look.listen(context, params))
    if step == "reach":
        return _said(ports.reach_all(params["places"], params["token"]))
    if step == "read":
        return _said(jobs.read(context, params))
    if step == "list":
        return _said(jobs.listed(context, params))
    if check_mode:
        return {"changed": True, "training": {}}
    if step == "start":
        given = dict(json.loads(params["given"]), secret=params["secret"])
        files = json.loads(params["files"])
        started = jobs.start(context, dict(params, given=given, files=files))
        return {"changed": True, "training": started}
    stopped = jobs.stop(context, params)
    return {"changed": stopped["stopped"], "training": stopped}


def _said(answer: Any) -> dict[str, Any]:
    return {"changed": False, "training": answer}
