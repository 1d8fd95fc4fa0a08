"""The module `servings`: looks, makes models as wished, proves them."""

from __future__ import annotations

import json

from ...host import gpu_shares as share
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving
from ..gpu_workspace.program import files
from ..gpu_workspace.program.places import RefusedError
from . import bring, current, entries, images, places, proof, wished

if TYPE_CHECKING:
    from typing import Any


def settle(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """The module's result; RefusedError or ValueError with its message."""
    if params["state"] == "proven":
        try:
            records = gpu_serving.records(current.context(current.NOTHING))
            proven = proof.prove(records, params)
            return dict(proven, changed=False)
        except RefusedError as error:
            raise RefusedError(f"{error}. journalctl -u 'gpu-serving-*' says more.") from None
    wish = wish_of(params)
    try:
        seen = current.look(wish)
        if params["state"] == "looked":
            file = bool(params["image_sha256"] and seen["changes"]) and not images.has(
                wish["image"]
            )
            return dict(seen, changed=False, file=file)
        return present(params, wish, seen, dry)
    except (RefusedError, ValueError) as error:
        end = " Nothing was changed." if params["state"] == "looked" else ""
        raise RefusedError(f"{error}.{end}") from None


def wish_of(params: dict[str, Any]) -> dict[str, Any]:
    """The module's parameters as the wish that functions of this package take."""
    image = wished.image_name(params["image"], params["image_sha256"])
    return {
        "servings": params["servings"],
        "tokens": params["tokens"],
        "image": image,
        "slurm": share.promised(params["slurm"]),
    }


def present(
    params: dict[str, Any], wish: dict[str, Any], seen: dict[str, Any], dry: bool
) -> dict[str, Any]:
    """Makes the models as wished, or with `dry` says what would be done."""
    names, gone, door = sorted(seen["changes"]), seen["gone"], seen["door"]
    left = not wish["servings"] and files.text(places.DOOR_PATHS) is not None
    result: dict[str, Any] = {
        "changed": bool(names or gone or left or door),
        "models": names,
        "removed": gone,
        "tokens": places.folder("NAME/token"),
        "diff": _diff(wish, seen),
        "summary": "",
    }
    if dry or not result["changed"]:
        if result["changed"]:
            written = "; would write: " + ", ".join(door) if door else ""
            words = f"Would serve: {_listed(names)}; would end: {_listed(gone)}{written}"
            result["summary"] = words
        return result
    image, release = wish["image"], ""
    if names:
        if entries.image_fault(params["image"]) or not image:
            raise RefusedError(
                "The models need one image of TensorFlow Serving by its digest: gpu_serving_image "
                "(docker.io/tensorflow/serving@sha256:...), or gpu_serving_image_file with "
                "gpu_serving_image_sha256"
            )
        image = images.bring(params)
        first = next(e for e in entries.checked(wish["servings"]) if e["name"] in names)
        gpus = current.gpus(wish)[first["name"]]
        release = images.try_release(image, gpus, params["release"])
    bring.fulfil(wish, seen, {"image": image, "release": release}, params["patience"])
    result["summary"] = "Serving: {0}. Ended: {1}. Tokens lie, for root alone, in {2}".format(
        _listed(names), _listed(gone), result["tokens"]
    )
    if not names and not gone:
        result["summary"] = "Written anew for the front door: " + _listed(door)
    return result


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


def _diff(wish: dict[str, Any], seen: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of models that differ, before and after, without tokens."""
    models, options = wished.models(wished.options(wish)), wished.options(wish)
    return [
        {
            "before_header": places.folder(name),
            "after_header": places.folder(name),
            "before": _text(bring.record_of(name).get("settings")),
            "after": _text(wished.settings(models[name], options)),
        }
        for name in sorted(seen["changes"])
    ]


def _text(settings: Any) -> str:
    return json.dumps(settings, indent=2, sort_keys=True) + "\n" if settings else ""
