"""The list `gpu_servings`: what may stand in it, and what is refused.

The generator reads it by this file as well.
"""

from __future__ import annotations

import re

from ..gpu_workspace.program import people_list, traits
from . import places

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

# Part of units', containers' and nginx's names.
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
# nginx compares it by a regular expression.
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")
PULLED = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")
LOCAL = re.compile(r"sha256:[0-9a-f]{64}")
SHA256 = re.compile(r"[0-9a-f]{64}")
# The gpus of an entry: no number, for a model's GPU is not to move when another is added.
DEFAULTS: dict[str, Any] = {
    "shared": False,
    "gpu_memory": 0,
    "cpus": 0,
    "memory": "",
    "files": "",
    "poll": 10,
    "user": "65534:65534",
    "compare": True,
    "tensorrt": False,
}
NEEDED = ("models", "gpus", "port")
KEYS = ("name", *NEEDED, "grpc_port", *DEFAULTS)
_FORMS = {
    "models": "the model's directory on the host, which has a directory for each version: "
    "/srv/models/mnist, with 1, 2, ...",
    "files": "a directory on the host whose .tflite files are handed out",
    "gpus": "all, none, or a list of indices and UUIDs",
    "shared": "true or false",
    "gpu_memory": "the share of a GPU's memory, above 0 and up to 1",
    "port": "a port of the host, from 1 to 65535",
    "grpc_port": "a port of the host, from 1 to 65535",
    "cpus": "a number of processors",
    "memory": "a size like 16g",
    "poll": "seconds between two looks for a new version, from 1 to 3600",
    "user": 'numbers of a user and group, not of root, like "65534:65534"',
    "compare": "true or false",
    "tensorrt": "true or false",
}


def checked(value: Any) -> list[dict[str, Any]]:
    """The list `gpu_servings`, each with all keys. ValueError says what is wrong with it.

    No value of an unknown key is ever shown: it may be a token in the wrong place.
    """
    if not isinstance(value, list):
        raise ValueError("it is a list of models, each a mapping with a name")
    entries = [_entry(number, entry) for number, entry in enumerate(value, 1)]
    _apart(entries)
    return entries


def _entry(number: int, entry: Any) -> dict[str, Any]:
    form = (
        "no name of a model; expected small letters, digits and -, with a letter first, 31 at most"
    )
    name = people_list.name_of(number, entry, NAME, "mnist", form)
    if places.folder(name) == places.DOOR:
        raise ValueError(
            f"entry {number}: {name} names what leads to the models; expected another name"
        )
    for key in sorted(entry, key=str):
        people_list.refuse_key(name, key, KEYS, "gpu_serving_tokens")
    for key in NEEDED:
        if key not in entry:
            raise ValueError(f"{name} needs {key}: {_FORMS[key]}")
    whole = dict(DEFAULTS, **entry)
    for key in KEYS[1:]:
        if key in whole and not _CHECKS[key](whole[key]):
            raise ValueError(f"{name}: {key} is {_FORMS[key]}")
    if whole["gpu_memory"] and whole["gpus"] == "none":
        raise ValueError(f"{name}: gpu_memory has no meaning with gpus: none")
    return whole


def _path(value: Any) -> bool:
    fit = isinstance(value, str) and PATH.fullmatch(value) is not None
    return fit and not {".", ".."} & set(value.split("/"))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _port(value: Any) -> bool:
    return people_list.is_whole(value) and 0 < value < 65536


def _user(value: Any) -> bool:
    fit = isinstance(value, str) and people_list.USER.fullmatch(value) is not None
    return fit and 0 not in traits.numbers(value)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "models": _path,
    "files": lambda value: value == "" or _path(value),
    "gpus": lambda value: not people_list.is_whole(value) and people_list.fit_gpus(value),
    "shared": _flag,
    "gpu_memory": lambda value: _number(value) and 0 <= value <= 1,
    "port": _port,
    "grpc_port": _port,
    "cpus": lambda value: _number(value) and value >= 0,
    "memory": lambda value: value == "" or traits.size(value) is not None,
    "poll": lambda value: people_list.is_whole(value) and 1 <= value <= 3600,
    "user": _user,
    "compare": _flag,
    "tensorrt": _flag,
}


def ports(entry: dict[str, Any]) -> list[int]:
    """The ports of the host that a model takes."""
    return [entry[key] for key in ("port", "grpc_port") if key in entry]


def _apart(entries: list[dict[str, Any]]) -> None:
    """ValueError where two models have the same name or port, or the same GPU unshared."""
    owners: dict[tuple[str, Any], str] = {}
    for entry in entries:
        claims: list[tuple[str, Any]] = [("name", entry["name"])]
        claims += [("port", port) for port in ports(entry)]
        for claim in claims:
            if claim in owners:
                raise ValueError(
                    "{0} {1} is said twice ({2} and {3})".format(
                        *claim, owners[claim], entry["name"]
                    )
                )
            owners[claim] = entry["name"]
    people_list.refuse_promised_twice(people_list.takers_of(entries))


def refuse_clashes(
    entries: list[dict[str, Any]], people: list[dict[str, Any]], options: Any = None
) -> None:
    """ValueError for what a model and a workspace, or the front door, can't both have.

    That is a port, a GPU unshared, and the door's path of the models. `options`: the host's, of
    which the door's count.
    """
    owners = {
        port: "workspace " + person["name"] for person in people for port in traits.ports(person)
    }
    doors = _door_ports(options or {})
    owners.update(dict.fromkeys(doors, "the front door"))
    for entry in entries:
        for port in ports(entry):
            if port in owners:
                raise ValueError(
                    "port {0} is said twice ({1} and model {2})".format(
                        port, owners[port], entry["name"]
                    )
                )
    if doors and entries and any(person["name"] == "serving" for person in people):
        raise ValueError("the front door has /serving/ for models, and a person of that name")
    people_list.refuse_promised_twice(people + people_list.takers_of(entries))


def _door_ports(options: Any) -> list[int]:
    """The ports of the front door that is wished for; none without one."""
    if not options.get("gpu_front_door_name"):
        return []
    plain = options.get("gpu_front_door_redirect") is True
    plain = plain or options.get("gpu_front_door_tls") == "acme"
    return [options.get("gpu_front_door_port") or 443] + ([80] if plain else [])


def image_fault(image: str) -> str | None:
    """What is wrong with the name of an image; None where it names one image for good."""
    if image == "" or PULLED.fullmatch(image) or LOCAL.fullmatch(image):
        return None
    return (
        f"{image!r} names no one image; expected NAME@sha256:<64 hex digits>, as `docker image "
        "inspect` lists it under RepoDigests, or sha256:<64 hex digits>, the id of one that the "
        "host has"
    )
