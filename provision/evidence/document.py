"""The file of evidence: its format, its bytes, and what a reader relies on in it.

docs/schemas/evidence-1.json describes it for other programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from provision import inputs
from provision.errors import InputError

FORMAT = 1
# Of an acceptance's verdict: docs/schemas/acceptance-1.json.
ACCEPTANCE_FORMAT = 1

Evidence = dict[str, Any]

TEXT_OR_NULL = (str, type(None))
# What is read of an acceptance here. Keys of later versions are kept as they are.
_CHECK = {
    **dict.fromkeys(("check", "state", "reason", "action", "how"), str),
    "evidence": [str],
}
_GPU = {
    "index": int,
    **dict.fromkeys(("uuid", "serial", "name", "pci", "vbios", "part", "slot"), TEXT_OR_NULL),
    "verdict": str,
    "action": str,
    "checks": [_CHECK],
}
ACCEPTANCE = {
    "format": int,
    "verdict": str,
    "action": str,
    "checks": [_CHECK],
    "gpus": [_GPU],
    "driver": TEXT_OR_NULL,
    "simulated": bool,
    "stand_in": bool,
}
DOCUMENT = {
    "format": int,
    "host": str,
    "written": str,
    "provision": str,
    "simulated": bool,
    "lock": {"digest": str, "stack": str},
    "platform": dict,
    "versions": {str: {"locked": str, "found": TEXT_OR_NULL}},
    "run": {
        "name": str,
        "mode": str,
        "finished": str,
        "status": str,
        "last_proven": TEXT_OR_NULL,
        "checks": dict,
        "failed": [{"id": str, "title": str}],
    },
    "acceptance": {"finished": str, "verdict": ACCEPTANCE},
}


def dump(evidence: Mapping[str, Any]) -> bytes:
    """The canonical bytes: sorted keys, two blanks a level, ASCII, one line break at the end."""
    text = json.dumps(evidence, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def file_name(host: str, written: str) -> str:
    """ "gpu07-20261126T023000Z.json": a host's evidences sort by their dates."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", host).lstrip(".-") or "host"
    moment = re.sub(r"[-:]|\.\d+", "", written)
    return f"{safe[:100]}-{moment}.json"


def parse(data: bytes, *, where: str) -> Evidence:
    """The evidence in a file's bytes. InputError for what is none, or of another version."""
    content = loads(data, where=where, kind="evidence")
    hint = "`provision evidence HOST` writes it; another version of provision has others"
    message = "is not evidence of a format known here"
    document = inputs.of_format(content, FORMAT, message, where=where, hint=hint)
    strange = fault(document, DOCUMENT)
    if strange:
        raise InputError(f"is not evidence: `{strange}` is not as in evidence", where=where)
    check_acceptance(document["acceptance"]["verdict"], where)
    return document


def check_acceptance(verdict: Any, where: str, hint: str = "") -> None:
    """InputError where an acceptance's verdict of a host can't be read by this version."""
    message = "the verdict is of another version of provision"
    inputs.of_format(verdict, ACCEPTANCE_FORMAT, message, where=where, hint=hint)
    strange = fault(verdict, ACCEPTANCE)
    if strange:
        raise InputError(f"`{strange}` is not as in a verdict", where=where, hint=hint)


def loads(data: bytes, *, where: str, kind: str, hint: str = "") -> Any:
    """The value of a JSON document. InputError for anything else, and for NaN, which JSON lacks.

    `kind` says in the error what the file should be.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError.of(error, f"is not {kind}: not JSON", where, hint) from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def fault(value: Any, shape: Any, path: str = "") -> str:
    """The first place whose type is not the shape's, as "gpus[1].uuid"; "" without one.

    A shape is a type, several types, a list of one shape, a mapping of keys that must be there, or
    {str: shape} of any keys.
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return path or "it"
        parts = dict.fromkeys(value, shape[str]) if str in shape else shape
        inner = ((f"{path}.{key}".lstrip("."), value.get(key), part) for key, part in parts.items())
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return path
        inner = ((f"{path}[{number}]", item, shape[0]) for number, item in enumerate(value))
    else:
        fits = isinstance(value, shape) and not (shape is int and isinstance(value, bool))
        return "" if fits else path
    return next((place for name, item, part in inner if (place := fault(item, part, name))), "")
