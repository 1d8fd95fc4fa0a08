"""The recorded settings of the people who have a workspace on this host."""

from __future__ import annotations

import os

from . import files, people_list, places, traits

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def recorded_people() -> list[str]:
    """Names of the people who have something here."""
    try:
        names = os.listdir(files.inside(places.PLACE))
    except FileNotFoundError:
        return []
    return sorted(
        n
        for n in names
        if traits.NAME.fullmatch(n) and os.path.isdir(files.inside(places.folder(n)))
    )


def of_person(name: str) -> dict[str, Any]:
    settings = files.data(places.folder(name) + "/workspace.json")
    return settings if isinstance(settings, dict) else {}


def wished(settings: dict[str, Any]) -> dict[str, Any]:
    """The person of a workspace.json, with the uid and gid that were given."""
    person = people_list.checked([settings["workspace"]])[0]
    return dict(person, user=settings.get("user") or person["user"] or places.FORMER_USER)


def gpus_of(name: str) -> Any:
    """ "all", or a list of the indices and UUIDs of somebody's GPUs; empty where there are none.

    A UUID is docker's to look up: the index of its GPU is another where a card was added.
    """
    asked = (of_person(name).get("workspace") or {}).get("gpus")
    return asked if isinstance(asked, list) else files.data(places.folder(name) + "/gpus.json")


def password_file(name: str) -> tuple[str, ...]:
    """("password",) where a person has a password file, else ()."""
    return ("password",) if files.text(places.folder(name) + "/password") else ()


def to_offer(name: str) -> str:
    """The login methods that sshd should offer, as it lists them itself."""
    return ",".join(("publickey", *password_file(name)))
