"""docker's network of the served models, and each model's addresses on it."""

from __future__ import annotations

import ipaddress
import json

from ...type_checking import TYPE_CHECKING
from ..gpu_workspace.program import docker, docker_words, programs
from ..gpu_workspace.program.places import RefusedError
from . import places

if TYPE_CHECKING:
    from typing import Any

# Containers do not reach each other, nor anything beyond this host.
APART = ("--internal", "--opt", docker.APART, "--label", places.LABEL)


def subnet(name: str = places.NETWORK) -> str | None:
    """A network's addresses; None where it is missing. RefusedError for one that is not ours."""
    form = docker_words.shape("json .")
    code, out, _error = docker.answer("network", "inspect", "--format", form, name)
    if code:
        return None
    inspected = json.loads(out)
    if places.LABEL not in (inspected["Labels"] or {}) or not inspected["Internal"]:
        raise RefusedError(
            f"docker has a network {name} that is not of gpu_servings; remove it, or "
            "what uses it, first"
        )
    return str(inspected["IPAM"]["Config"][0]["Subnet"])


def made() -> str:
    """The network's subnet; the network is created where it is missing.

    docker gives a container a fixed address only if the network's subnet was named, and knows best
    which is free: a first network without one shows its choice, which is named for the second. The
    first has another name: of a network that a killed run has left nobody can tell whether its
    subnet was named.
    """
    existing = subnet()
    if existing is not None:
        return existing
    create, asked = ("network", "create", "--driver", "bridge", *APART), places.ASKED_NETWORK
    chosen = subnet(asked)
    if chosen is None:
        programs.must(docker.answer(*create, asked), "docker network create")
        chosen = subnet(asked)
    if chosen is None:
        raise RefusedError(f"docker made the network {asked}, and does not know it")
    programs.must(docker.answer("network", "rm", asked), "docker network rm")
    words = (*create, "--subnet", chosen, places.NETWORK)
    programs.must(docker.answer(*words), "docker network create")
    return chosen


def remove() -> None:
    """It stays if a container of somebody else uses it."""
    for name in (places.NETWORK, places.ASKED_NETWORK):
        if subnet(name) is not None:
            docker.answer("network", "rm", name)


def addresses(chosen: str, kept: dict[str, Any] | None, taken: set[str]) -> dict[str, str]:
    """{slot: address} of a model: those that it has, or free ones of the network."""
    network = ipaddress.ip_network(chosen)
    had = {slot: str((kept or {}).get(slot)) for slot in places.SLOTS}
    if kept and all(ipaddress.ip_address(had[slot]) in network for slot in places.SLOTS):
        return had
    # The first is the host's own.
    hosts = iter(network.hosts())
    next(hosts)
    free = (str(host) for host in hosts if str(host) not in taken)
    try:
        return {slot: next(free) for slot in places.SLOTS}
    except StopIteration:
        raise RefusedError(f"the network {places.NETWORK} ({chosen}) has no free address") from None
