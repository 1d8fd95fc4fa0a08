"""The module `workspaces`: looks, makes workspaces as wished, proves them."""

from __future__ import annotations

import json

from ...type_checking import TYPE_CHECKING
from . import bring, current, installed, parameters, proof, running_host, uids
from .program import docker, files, people_list, places

if TYPE_CHECKING:
    from typing import Any


def answer(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """The module's result; raises RefusedError or ValueError with its message."""
    if params["state"] == "proven":
        try:
            return {"changed": False, "proven": proof.prove(params["patience"])["proven"]}
        except (places.RefusedError, ValueError) as error:
            raise places.RefusedError(
                f"{error}. journalctl -u 'gpu-workspace@*' and docker logs say more."
            ) from None
    if params["state"] == "looked":
        try:
            return looked(params)
        except (places.RefusedError, ValueError) as error:
            raise places.RefusedError(f"{error}. Nothing was changed.") from None
    try:
        return present(params, dry)
    except (places.RefusedError, ValueError) as error:
        raise places.RefusedError(f"{error}.") from None


def looked(params: dict[str, Any]) -> dict[str, Any]:
    """What differs from the wish, and what the image lacks."""
    parameters.refuse(params)
    wish = parameters.wish_of(params)
    seen = current.look(wish)
    image = params["image"]
    missing = bool(seen["changes"]) and not seen["image"]
    by_file = bool(image["image_file"])
    if image["base_file"] and missing:
        by_file = docker.answer("image", "inspect", parameters.base_name(image))[0] != 0
    return dict(seen, changed=False, reference=wish["image"], file=missing and by_file)


def present(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Makes the workspaces as wished, or with `dry` says what would be done."""
    wish = parameters.wish_of(params)
    seen = bring.prepared(wish)
    if wish["workspaces"] or seen["gone"]:
        written = installed.install(installed.texts(params["shipped"]), dry)
    else:
        written = installed.remove(dry)
    diff = _diff(wish, seen)
    names, left = sorted(seen["changes"]), seen["gone"]
    if dry:
        result = {"changed": names, "removed": left, "tokens": places.folder("NAME/token")}
        summary = f"Would change: {_listed(names)}; would stop: {_listed(left)}"
    else:
        result = bring.fulfil(wish, seen)
        summary = (
            "Changed: {0}. Stopped, home kept: {1}. Jupyter's tokens lie, for root alone, in "
            "{2}".format(_listed(result["changed"]), _listed(result["removed"]), result["tokens"])
        )
    if left and not wish["workspaces"]:
        # Only now no unit needs it.
        written += installed.remove(dry)
    acted = bool(names or left or seen["open"])
    return {
        "changed": bool(acted or written),
        "people": result["changed"],
        "removed": result["removed"],
        "tokens": result["tokens"],
        "written": sorted(set(written)),
        "summary": summary if acted else "",
        "diff": diff,
    }


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "nobody"


def _diff(wish: dict[str, Any], seen: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of workspaces that differ, before and after, without secrets."""
    context = running_host.context(wish)
    users = uids.own_users(context, people_list.checked(wish["workspaces"]))
    return [
        {
            "before_header": places.folder(name) + "/workspace.json",
            "after_header": places.folder(name) + "/workspace.json",
            "before": files.text(places.folder(name) + "/workspace.json") or "",
            "after": json.dumps(settings, indent=2, sort_keys=True) + "\n",
        }
        for name, settings in bring.settings_of_changed(context, seen, users).items()
    ]
