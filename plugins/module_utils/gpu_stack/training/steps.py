"""What the module `gpu_training` does, step by step."""

from __future__ import annotations

from ..host.context import Context
from ..type_checking import TYPE_CHECKING
from . import account, jobs, look, ports

if TYPE_CHECKING:
    from typing import Any

STEPS = ("look", "reach", "start", "read", "stop", "list")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """{changed, training} of a step. Check mode starts and stops nothing."""
    context = Context()
    step = params["step"]
    if step == "look":
        return _said(look.look(context, params))
    if step == "reach":
        return _said(ports.reach_all(params["places"], params["token"]))
    if step == "read":
        return _said(jobs.read(context, params))
    if step == "list":
        folder = account.of(params["user"]).folder(params["folder"])
        return _said(account.of(params["user"]).do(lambda: jobs.listed(folder, params["host"])))
    if check_mode:
        return {"changed": True, "training": {}}
    if step == "start":
        given = dict(params["given"], secret=params["secret"])
        return {"changed": True, "training": jobs.start(context, dict(params, given=given))}
    stopped = jobs.stop(context, params)
    return {"changed": stopped["stopped"], "training": stopped}


def _said(answer: Any) -> dict[str, Any]:
    return {"changed": False, "training": answer}
