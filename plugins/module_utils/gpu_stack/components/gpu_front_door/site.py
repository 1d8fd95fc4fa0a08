"""The values for the templates of nginx's site and of the page.

The templates are the role's, and are rendered on the controller. They only loop over lists, insert
names and escape HTML; all decisions are here.
"""

from __future__ import annotations

import os

from ...type_checking import TYPE_CHECKING
from .renewal import files, paths
from .wishes import ports_of

if TYPE_CHECKING:
    from typing import Any

# Files of the served models, which they write themselves. nginx takes a pattern of which none is
# there.
SERVED = "/etc/gpu-serving/door"


def words(wish: dict[str, Any], door: dict[str, Any]) -> dict[str, Any]:
    """{site, waiting, page} of a checked wish; `door`: the content of door.json, or {}.

    `waiting` is the site during an ACME challenge, else None.
    """
    ports = [_port_80(wish)] if 80 in ports_of(wish) else []
    return {
        "site": {"door": _door(wish), "port_80": ports},
        "waiting": _waiting(wish, door) if wish["tls"] == "acme" else None,
        "page": page(wish),
    }


def _door(wish: dict[str, Any]) -> dict[str, Any]:
    """Values for the door's own server."""
    chain, key = paths.files_of(wish)
    people = [_sockets(person) for person in wish["people"] if "port" in person]
    return {
        "name": wish["name"],
        "listen": _listens(wish, wish["port"]),
        "chain": chain,
        "key": key,
        "folder": os.path.dirname(paths.PAGE),
        "hsts": wish["hsts"],
        "authority": paths.CA if wish["tls"] == "local_ca" else None,
        "people": people,
        "serving": SERVED if wish.get("serving") else None,
    }


def _sockets(person: dict[str, Any]) -> dict[str, Any]:
    """The sockets of a person's Jupyter and TensorBoard."""
    place = "{0}/{1}.".format(paths.PORTS, person["name"])
    board = place + "tensorboard" if person.get("tensorboard_port") else None
    return {"name": person["name"], "jupyter": place + "jupyter", "tensorboard": board}


def _listens(wish: dict[str, Any], port: int) -> list[str]:
    """Addresses for nginx to listen on; `::` becomes one socket of IPv6 and one of IPv4."""
    address = wish["address"]
    both = ["0.0.0.0", "::"] if address == "::" else [address]  # noqa: S104 as wished
    places = [f"[{place}]" if ":" in place else place for place in both]
    return [f"{place}:{port}" for place in places]


def _port_80(wish: dict[str, Any]) -> dict[str, Any]:
    """Values for port 80: ACME challenges, and the redirect to the door."""
    port = "" if wish["port"] == 443 else ":{0}".format(wish["port"])
    return {
        "name": wish["name"],
        "listen": _listens(wish, 80),
        "challenges": paths.CHALLENGES if wish["tls"] == "acme" else None,
        "leads_to": "https://{0}{1}".format(wish["name"], port) if wish["redirect"] else None,
    }


def _waiting(wish: dict[str, Any], door: dict[str, Any]) -> dict[str, Any]:
    """The former door, with port 80 for the challenges of the wished one."""
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
    """Values for the page, without secrets."""
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
