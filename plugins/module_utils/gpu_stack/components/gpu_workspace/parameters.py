"""The modules' parameters, and the values that are refused before the host is looked at."""

from __future__ import annotations

import re

from ...host import gpu_shares as share
from ...type_checking import TYPE_CHECKING
from . import wished
from .program import people_list, places

if TYPE_CHECKING:
    from typing import Any

PULLED = re.compile(r".+@sha256:[0-9a-f]{64}")
SHA256 = re.compile(r"[0-9a-f]{64}")
# The option `image` of both modules.
IMAGE = {
    "type": "dict",
    "default": {},
    "apply_defaults": True,
    "options": {
        "image": {"type": "str", "default": ""},
        "image_file": {"type": "str", "default": ""},
        "image_sha256": {"type": "str", "default": ""},
        "base": {"type": "str", "default": ""},
        "base_file": {"type": "str", "default": ""},
        "base_sha256": {"type": "str", "default": ""},
        "packages": {"type": "list", "elements": "str", "default": []},
        "places": {"type": "list", "elements": "str", "default": []},
        "stack": {"type": "dict", "default": {}},
    },
}


def wish_of(params: dict[str, Any]) -> dict[str, Any]:
    """The module's parameters as the wish that functions of this package take."""
    names = ("workspaces", "root", "address", "ssh_address", "in_use", "host_memory")
    wish = {name: params[name] for name in names}
    return dict(
        wish,
        slurm=share.promised(params["slurm"]),
        tokens=params["tokens"],
        passwords=params["passwords"],
        models=params["models"],
        image=reference(params["image"]),
    )


def secrets(params: dict[str, Any]) -> set[str]:
    """Texts that no log may show: tokens, hashes, and values of unknown keys of a person.

    The latter may be a misplaced password; it is refused, but Ansible logs a module's arguments
    before.
    """
    texts = {*_texts(params["tokens"]), *_texts(params["passwords"])}
    people = params["workspaces"]
    for person in people if isinstance(people, list) else [people]:
        if not isinstance(person, dict):
            texts |= _texts(person)
            continue
        for key in person:
            if key not in people_list.KEYS:
                texts |= _texts(person[key])
    return texts


def _texts(value: Any) -> set[str]:
    """Every text and number within a value, as text."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return {text for item in value for text in _texts(item)}
    return set() if value in (None, "", True, False) else {str(value)}


def reference(image: dict[str, Any]) -> str:
    """The name under which docker has the image."""
    base = wished.base_of(image["base"], image["base_sha256"])
    if base:
        return wished.built_name(base, image["packages"], image["places"], image["stack"])
    return wished.image_name(image["image"], image["image_sha256"])


def base_name(image: dict[str, Any]) -> str:
    """The name under which docker has the base of an image that is built; empty without one."""
    sha256 = image["base_sha256"]
    name: str = image["base"]
    return "gpu-workspace-base:" + sha256[:16] if sha256 else name


def refuse(params: dict[str, Any]) -> None:
    """RefusedError for values that can't be served."""
    people = params["workspaces"]
    if not people:
        return
    image = params["image"]
    if not _one_image(image):
        raise places.RefusedError(
            "The workspaces need one image: gpu_workspace_image with its digest "
            "(NAME@sha256:...), or gpu_workspace_image_file, a tar on the machine that runs "
            "Ansible, with gpu_workspace_image_sha256, or one that is built here: from "
            "gpu_workspace_base with its digest, or gpu_workspace_base_file with "
            "gpu_workspace_base_sha256"
        )
    if (image["base"] or image["base_file"]) and "tensorflow" not in image["stack"]:
        raise places.RefusedError(
            "An image is built of the host's stack, and gpu_workspace_stack names none"
        )
    every = people if isinstance(people, list) else []
    named = [person for person in every if isinstance(person, dict)]
    names = [person.get("name") for person in named]
    strangers = [name for name in params["tokens"] if name not in names]
    if strangers:
        raise places.RefusedError(
            "gpu_workspace_tokens names {0}, for whom gpu_workspaces has no workspace".format(
                ", ".join(strangers)
            )
        )
    _refuse_passwords(params["passwords"], named)


def _refuse_passwords(passwords: dict[str, Any], people: list[dict[str, Any]]) -> None:
    by_ssh = [person.get("name") for person in people if "ssh_port" in person]
    unfit = [
        name
        for name in sorted(passwords)
        if name not in by_ssh
        or not isinstance(passwords[name], str)
        or people_list.HASH.fullmatch(passwords[name]) is None
    ]
    if unfit:
        raise places.RefusedError(
            "gpu_workspace_passwords has to name people of kind ssh or both, each with a hash of "
            "crypt(3) by SHA-512 or yescrypt ($6$, $y$; `openssl passwd -6` makes one), from "
            "Ansible Vault; it does not of {0}".format(", ".join(unfit))
        )


def _one_image(image: dict[str, Any]) -> bool:
    """Whether exactly one source of the image is set, with a digest or a hash."""
    ways = [image[way] for way in ("image", "image_file", "base", "base_file") if image[way]]
    return len(ways) == 1 and all(
        (not image[kind] or PULLED.fullmatch(image[kind]))
        and bool(image[kind + "_file"]) == bool(SHA256.fullmatch(image[kind + "_sha256"]))
        for kind in ("image", "base")
    )
