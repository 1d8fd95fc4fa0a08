"""The module `slurm`: what it does and returns in each state."""

from __future__ import annotations

import os

from ...host.context import Context
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import absent, controller, node, obstacles, paths, proof, records, wishes

if TYPE_CHECKING:
    from typing import Any


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The module's result; RefusalError."""
    os.umask(0o022)
    try:
        return STATES[params["state"]](params, check_mode)
    except OSError as error:
        raise RefusalError(str(error)) from error


def _looked(params: dict[str, Any], _dry: bool) -> dict[str, Any]:
    options, context = params["options"], Context()
    here = context.isdir(paths.PLACE)
    if not wishes.is_wished(options):
        if here:
            absent.check(context, options)
        return {"changed": False, "gone": here, "packages": [], "controls": False, "node": False}
    wishes.check(options)
    former = obstacles.former_controller(context, records.noted(context), options)
    if former:
        raise RefusalError("; ".join(obstacles.moved(former, options)))
    return {
        "changed": False,
        "gone": False,
        "packages": [name for name in wishes.packages(options)
                     if not context.exists(paths.PROGRAMS[name])],
        "controls": wishes.controls(options),
        "node": wishes.computes(options),
    }  # fmt: skip


def _begun(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Notes which packages were not there before, so that a removal takes these alone."""
    brought = records.noted(Context()).get("brought") or []
    names = sorted({*brought, *params["packages"]})
    if not dry:
        records.note(brought=names)
    return {"changed": names != brought}


def _controls(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    return {"changed": True if dry else controller.present(params["options"])}


def _asked(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    return dict({} if dry else node.asked(params["options"]), changed=False)


def _admitted(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    if dry:
        return {"changed": True}
    name = wishes.host(params["options"])["name"]
    return controller.admitted(name, params["parts"], params["certificate"])


def _joined(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    return {"changed": True if dry else node.joined(params["options"], params["given"])}


def _proven(params: dict[str, Any], _dry: bool) -> dict[str, Any]:
    return dict(proof.prove(params["options"], params["patience"]), changed=False)


def _dismissed(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    if not dry:
        controller.dismissed(params["name"])
    return {"changed": True}


def _absent(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    if not Context().isdir(paths.PLACE):
        return {"changed": False, "packages": []}
    return dict({"packages": []} if dry else absent.remove(params["options"]), changed=True)


def _forgotten(_params: dict[str, Any], dry: bool) -> dict[str, Any]:
    here = Context().isdir(paths.PLACE)
    if here and not dry:
        absent.forget()
    return {"changed": here}


STATES = {
    "looked": _looked,
    "begun": _begun,
    "controls": _controls,
    "asked": _asked,
    "admitted": _admitted,
    "joined": _joined,
    "proven": _proven,
    "dismissed": _dismissed,
    "absent": _absent,
    "forgotten": _forgotten,
}
