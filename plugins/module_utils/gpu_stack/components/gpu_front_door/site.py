"""The words that the templates of nginx's site and of the page are filled with.

The templates are the role's, and are rendered where Ansible runs. What they say of whom is decided
here: they have lists to go through and names to put in, and escape what becomes HTML.
"""

from __future__ import annotations

import os

from .renewal import files, paths
from .wishes import ports_of

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def words(wish: dict[str, Any], door: dict[str, Any]) -> dict[str, Any]:
    """{site, waiting, page} of a wish that was checked; `door`: what door.json has, or {}.

    `waiting` is the site while an ACME server asks; else it is None.
    """
    ports = [_port_80(wish)] if 80 in ports_of(wish) else []
    return {
        "site": {"door": _door(wish), "port_80": ports},
        "waiting": _waiting(wish, door) if wish["tls"] == "acme" else None,
        "page": page(wish),
    }


def _door(wish: dict[str, Any]) -> dict[str, Any]:
    """What the door's own server needs."""
    chain, key = paths.files_of(wish)
    people = [_ways(person) for person in wish["people"] if "port" in person]
    return {
        "name": wish["name"],
        "listen": _listens(wish, wish["port"]),
        "chain": chain,
        "key": key,
        "folder": os.path.dirname(paths.PAGE),
        "hsts": wish["hsts"],
        "authority": paths.CA if wish["tls"] == "local_ca" else None,
        "people": people,
    }


def _ways(person: dict[str, Any]) -> dict[str, Any]:
    """Where the sockets of a person's Jupyter and TensorBoard are."""
    place = "{0}/{1}.".format(paths.PORTS, person["name"])
    board = place + "tensorboard" if person.get("tensorboard_port") else None
    return {"name": person["name"], "jupyter": place + "jupyter", "tensorboard": board}


def _listens(wish: dict[str, Any], port: int) -> list[str]:
    """Where nginx listens; `::` is all of IPv6 and of IPv4, each by a socket of its own."""
    address = wish["address"]
    both = ["0.0.0.0", "::"] if address == "::" else [address]  # noqa: S104 as wished
    places = [f"[{place}]" if ":" in place else place for place in both]
    return [f"{place}:{port}" for place in places]


def _port_80(wish: dict[str, Any]) -> dict[str, Any]:
    """What answers at port 80: an ACME server's questions, and the way to the door."""
    port = "" if wish["port"] == 443 else ":{0}".format(wish["port"])
    return {
        "name": wish["name"],
        "listen": _listens(wish, 80),
        "challenges": paths.CHALLENGES if wish["tls"] == "acme" else None,
        "leads_to": "https://{0}{1}".format(wish["name"], port) if wish["redirect"] else None,
    }


def _waiting(wish: dict[str, Any], door: dict[str, Any]) -> dict[str, Any]:
    """The door as it was, and port 80 for the challenges of the one that is wished for."""
    former = door.get("settings") or {}
    has_site = files.read(paths.SITE) is not None and former
    if not has_site or not all(
        os.path.isfile(files.inside(path)) for path in paths.files_of(former)
    ):
        return {"door": None, "port_80": [_port_80(dict(wish, redirect=False))]}
    same = former["name"] == wish["name"]
    ports = [_port_80(former)] if not same and 80 in ports_of(former) else []
    redirect = former["redirect"] and same
    ports.append(_port_80(dict(wish, redirect=redirect, port=former["port"])))
    return {"door": _door(former), "port_80": ports}


def page(wish: dict[str, Any]) -> dict[str, Any]:
    """What the page says: no secret, and nothing that a template has to decide."""
    people = sorted(wish["people"], key=lambda person: person["name"])
    return {"name": wish["name"], "people": [_row(wish, person) for person in people]}


def _row(wish: dict[str, Any], person: dict[str, Any]) -> dict[str, Any]:
    ssh = ""
    if "ssh_port" in person:
        ssh = "ssh -p {0} {1}@{2}".format(person["ssh_port"], person["name"], wish["name"])
    return {
        "name": person["name"],
        "jupyter": "port" in person,
        "tensorboard": bool("port" in person and person.get("tensorboard_port")),
        "gpus": _gpus(person.get("gpus")),
        "limits": _limits(person),
        "ssh": ssh,
    }


def _gpus(gpus: Any) -> str:
    if isinstance(gpus, list):
        return ", ".join(f"GPU {gpu}" if isinstance(gpu, int) else gpu for gpu in gpus)
    if isinstance(gpus, int):
        return "{0} GPU{1}".format(gpus, "" if gpus == 1 else "s")
    return gpus or "none"


def _limits(person: dict[str, Any]) -> str:
    limits = []
    if person.get("cpus"):
        limits.append("{0} CPUs".format(person["cpus"]))
    if person.get("memory"):
        limits.append("{0} memory".format(str(person["memory"]).upper()))
    return ", ".join(limits)
