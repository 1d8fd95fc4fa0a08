"""The module `front_door`: what it does and returns in each state."""

from __future__ import annotations

import os
import subprocess

from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import differences, present, proof
from .absent import remove
from .renewal import files, paths
from .renewal.files import read
from .renewal.noted import noted
from .renewal.programs import RefusedError
from .wishes import check

if TYPE_CHECKING:
    from typing import Any

TEXTS = (("page", paths.PAGE), ("site", paths.SITE))
# How the sentence of a failure ends.
ENDS = {
    "looked": "Nothing was changed.",
    "absent": "Repair that, then run again.",
    "proven": "journalctl -u nginx and /var/log/nginx say more.",
}


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The module's result; RefusalError."""
    state = params["state"]
    os.umask(0o022)
    try:
        return STATES[state](params, check_mode)
    except (RefusedError, OSError, subprocess.SubprocessError) as error:
        words = " ".join([str(error).strip() + ".", ENDS.get(state, "")])
        raise RefusalError(words.strip()) from error


def _looked(params: dict[str, Any], _dry: bool) -> dict[str, Any]:
    return dict(differences.looked(params["door"]), changed=False)


def _present(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    wish = params["door"]
    check(wish)
    changes = differences.differences(wish, noted())
    result = {"changed": bool(changes), "changes": changes, "fingerprint": None}
    if not changes:
        return result
    result["diff"] = [
        {
            "before_header": path,
            "after_header": path,
            "before": read(path) or "",
            "after": params[word],
        }
        for word, path in TEXTS
    ]
    result["would"] = "Would change the front door: " + ", ".join(changes)
    if not dry:
        applied = present.apply(wish, {word: params[word] for word in ("site", "waiting", "page")})
        result["fingerprint"] = applied["fingerprint"]
    return result


def _absent(_params: dict[str, Any], dry: bool) -> dict[str, Any]:
    if noted() is None and not files.isdir(paths.PLACE):
        return {"changed": False, "packages": []}
    would = "Would remove the front door"
    packages = [] if dry else remove()["packages"]
    return {"changed": True, "packages": packages, "would": would}


def _proven(params: dict[str, Any], _dry: bool) -> dict[str, Any]:
    return {"changed": False, "proven": proof.prove(params["patience"])}


STATES = {"looked": _looked, "present": _present, "absent": _absent, "proven": _proven}
