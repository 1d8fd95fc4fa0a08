"""The files and settings that the inventory and the lock wish for on a host.

The look compares with it, and the module writes it.
"""

from __future__ import annotations

import json

from ...host import digests
from ...type_checking import TYPE_CHECKING
from . import shipped
from .program import places
from .stack_of_row import locked

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options, Row

ROOT = "/srv/gpu-workspaces"
LISTEN = """\
# Written by the Ansible role gpu_workspace; changes made here are lost.
[Socket]
ListenStream={0}:{1}
"""


def root_of(options: Options) -> str:
    return options.get("gpu_workspace_root") or ROOT


def base_of(base: str | None, sha256: str | None) -> str:
    """The base of an image, as part of its name; "" where none is built."""
    return "sha256:" + sha256 if sha256 else base or ""


def built_name(base: str, packages: list[str], roots: list[str], stack: dict[str, Any]) -> str:
    """The name of an image that is built on the host: a hash of all its inputs."""
    made_of = {
        "base": base,
        "packages": packages,
        "places": roots,
        "recipe": shipped.RECIPE,
        "stack": stack,
    }
    return "gpu-workspace-built:" + digests.of_text(json.dumps(made_of, sort_keys=True))[:16]


def built(options: Options, row: Row | None) -> str | None:
    """The name of the image that is built on this host; None where none is."""
    base = base_of(options.get("gpu_workspace_base"), options.get("gpu_workspace_base_sha256"))
    if not base:
        return None
    roots = [
        options.get("tensorflow_root") or "/opt/tensorflow",
        options.get("cudnn_root") or "/opt/nvidia/cudnn",
    ]
    return built_name(base, options.get("gpu_workspace_packages") or [], roots, locked(row))


def with_image(options: Options, row: Row | None) -> dict[str, Any]:
    """The options with the name of the image that is built from the lock's row, if one is."""
    name = built(options, row)
    return dict(options, gpu_workspace_image=name) if name else options


def image_name(image: str | None, sha256: str | None) -> str:
    """The image's name in docker on the host; one from a file gets a name of ours."""
    return "gpu-workspace:" + sha256[:16] if sha256 else image or ""


def image(options: Options) -> str:
    """The image's name in docker on the host."""
    return image_name(options.get("gpu_workspace_image"), options.get("gpu_workspace_image_sha256"))


def settings(person: dict[str, Any], options: Options, users: dict[str, str]) -> dict[str, Any]:
    """A person's wished workspace.json; `users` are those who have a uid already."""
    return {
        "image": image(options),
        "root": root_of(options),
        "address": options.get("gpu_workspace_address") or "127.0.0.1",
        "ssh_address": options.get("gpu_workspace_ssh_address") or "0.0.0.0",  # noqa: S104 as wished
        "base": "/{0}/".format(person["name"]),
        "network": places.NETWORK,
        "ports": places.PORTS,
        "user": users.get(person["name"]),
        "workspace": person,
    }


def listens(settings_of: dict[str, Any]) -> dict[str, str]:
    """{"ada.jupyter": text} of the systemd sockets for a workspace.json."""
    person = settings_of["workspace"]
    addresses = {}
    if "port" in person:
        addresses["jupyter"] = (settings_of["address"], person["port"])
    if "tensorboard_port" in person:
        # It knows no password.
        addresses["tensorboard"] = ("127.0.0.1", person["tensorboard_port"])
    return {
        "{0}.{1}".format(person["name"], service): LISTEN.format(*addresses[service])
        for service in addresses
    }


def options(wish: dict[str, Any]) -> dict[str, Any]:
    """A module's wish as the host's options, as the look has them."""
    return {
        "gpu_workspaces": wish["workspaces"],
        "gpu_workspace_image": wish["image"],
        "gpu_workspace_root": wish["root"],
        "gpu_workspace_address": wish["address"],
        "gpu_workspace_ssh_address": wish["ssh_address"],
        "gpu_workspace_digests": _digests(wish.get("tokens")),
        "gpu_workspace_passed": _digests(wish.get("passwords")),
    }


def _digests(secrets: dict[str, Any] | None) -> dict[str, str]:
    return {name: digests.of_text(str(secret)) for name, secret in (secrets or {}).items()}
