"""The front door's settings as door.json has them, and checks of the wish."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .patterns import DIRECTORY, DOOR_ADDRESS, EMAIL, NAME, PATH, PERSON_NAME
from .renewal.paths import PORTS
from .renewal.programs import RefusedError

if TYPE_CHECKING:
    from typing import Any

WAYS = ("local_ca", "given", "host", "acme")
# Keys of a person that the page and the paths need.
SHOWN = ("name", "kind", "gpus", "cpus", "memory", "port", "ssh_port", "tensorboard_port")
PERSONS_PORTS = ("port", "ssh_port", "tensorboard_port")


def settings(wish: dict[str, Any]) -> dict[str, Any]:
    """The content of door.json: the wish, with no more of each person than the door needs."""
    words = ("name", "port", "address", "tls", "certificate", "key", "redirect", "hsts")
    content = {word: wish[word] for word in words}
    if wish["tls"] != "host":
        # Files on the controller are compared by content, not by path.
        content["certificate"] = content["key"] = ""
    content["given"] = wish.get("given") or {}
    if wish["tls"] == "acme":
        content["acme"] = {word: wish["acme"][word] for word in ("email", "directory")}
    content["upstream"] = PORTS
    if wish.get("serving"):
        # A door without models is noted as before there were any.
        content["serving"] = True
    content["people"] = [
        {word: person[word] for word in SHOWN if word in person} for person in wish["people"]
    ]
    return content


def ports_of(wish: dict[str, Any]) -> list[int]:
    """The ports of the door; an ACME server connects to port 80 only."""
    plain = wish["redirect"] or wish["tls"] == "acme"
    return [wish["port"]] + ([80] if plain else [])


def check(wish: dict[str, Any]) -> None:
    """RefusedError for an invalid wish."""
    name = str(wish["name"])
    if NAME.fullmatch(name) is None or name.replace(".", "").isdigit():
        raise RefusedError("gpu_front_door_name is {0!r}, and no DNS name".format(wish["name"]))
    if wish["tls"] not in WAYS:
        raise RefusedError("gpu_front_door_tls is one of {0}".format(", ".join(WAYS)))
    if (wish["tls"] in ("given", "host")) != bool(wish["certificate"] and wish["key"]):
        raise RefusedError(
            "gpu_front_door_certificate and gpu_front_door_key are needed with gpu_front_door_tls: "
            "given and host, and with these alone"
        )
    if not wish["people"] and not wish.get("serving"):
        raise RefusedError(
            "a front door needs workspaces behind it (gpu_workspaces, which this role has as "
            "gpu_front_door_people), or served models (gpu_servings, gpu_front_door_servings)"
        )
    if wish["tls"] == "acme" and wish["acme"]["agree"] is not True:
        raise RefusedError(
            "gpu_front_door_tls: acme needs gpu_front_door_acme_agree: true, your word that you "
            "agree to the terms of service of {0}".format(wish["acme"]["directory"])
        )
    _check_words(wish)
    _check_ports(wish)
    if wish["tls"] == "acme" and wish["port"] == 80:
        raise RefusedError("port 80 is where an ACME server asks; the door needs another")
    for person in wish["people"]:
        for word in PERSONS_PORTS:
            if person.get(word) in ports_of(wish):
                raise RefusedError(
                    "port {0} is {1}'s, and the front door's".format(person[word], person["name"])
                )


def _check_words(wish: dict[str, Any]) -> None:
    """Lets only names, numbers, addresses and paths into nginx's configuration."""
    words = [("gpu_front_door_address", DOOR_ADDRESS, wish["address"])]
    if wish["tls"] == "host":
        # With `given` they are paths of the controller, which nginx does not get.
        words += [("gpu_front_door_" + word, PATH, wish[word]) for word in ("certificate", "key")]
    if wish["tls"] == "acme":
        words.append(("gpu_front_door_acme_directory", DIRECTORY, wish["acme"]["directory"]))
        if wish["acme"]["email"]:
            words.append(("gpu_front_door_acme_email", EMAIL, wish["acme"]["email"]))
    words += [("a person's name", PERSON_NAME, person["name"]) for person in wish["people"]]
    for subject, shape, value in words:
        if not isinstance(value, str) or shape.fullmatch(value) is None:
            raise RefusedError(f"{subject} is {value!r}, and not {shape.pattern}")


def _check_ports(wish: dict[str, Any]) -> None:
    ports = [("gpu_front_door_port", wish["port"])]
    for person in wish["people"]:
        words = [word for word in PERSONS_PORTS if word in person]
        ports += [("{0}'s {1}".format(person["name"], word), person[word]) for word in words]
    for subject, value in ports:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
            raise RefusedError(f"{subject} is {value!r}, and no number from 1 to 65535")
