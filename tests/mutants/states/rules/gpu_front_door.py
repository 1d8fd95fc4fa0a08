"""What is in a front door's way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import PRE, State

from .gpu_workspace import shared


def bare(found: dict[str, Any]) -> None:
    found["state"]["gpu_front_door"] = {"version": None, "noted": None, "here": False}


@fresh
def doored() -> dict[str, Any]:
    """The machine, which is to have a front door; made up."""
    data = shared()
    data["found"]["state"]["gpu_front_door"].update(
        {"files": {}, "shipped": {}, "nginx": False, "runs": False, "disabled": [], "now": 0}
    )
    data["found"]["preflight"]["front_door"] = {"ports": {}, "sites": []}
    data["options"]["gpu_front_door_name"] = "gpu01.example.org"
    data["options"] |= {"gpu_front_door_tls": "local_ca", "gpu_front_door_acme_agree": False}
    return data


def states() -> Iterator[State]:
    seen, here = PRE + "front_door/", {"base": doored, "only": ("gpu_front_door",)}
    rule, ports = "front-door-port", seen + "ports"
    words = (
        "port 443 of the front door is in use by apache2, haproxy",
        "another port (gpu_front_door_port)",
    )
    yield State(
        rule, "others listen there", {ports: {"443": ["apache2", "haproxy"]}}, words, **here
    )
    words = ("port 80 of the front door is in use by caddy",)
    yield State(rule, "one listens at port 80", {ports: {"80": ["caddy"]}}, words, **here)
    yield State(rule, "nobody does", {}, **here)
    rule, sites = "front-door-site", seen + "sites"
    words = (
        "in the front door's way: /etc/nginx/conf.d/a has the name gpu01.example.org already",
        "another name or port",
    )
    theirs = {sites: ["/etc/nginx/conf.d/a has the name gpu01.example.org already"]}
    yield State(rule, "a site has the name", theirs, words, **here)
    yield State(rule, "no site has it", {}, **here)
    rule, nobody = "front-door-nobody", {"options/gpu_workspaces": []}
    words = (
        "gpu_workspaces and gpu_servings have nothing that is behind it",
        '"gpu_front_door_name": ""',
    )
    yield State(rule, "nobody is behind it", nobody, words, **here)
    yield State(rule, "somebody is", {}, **here)
    gone = {**nobody, "options/gpu_front_door_name": ""}
    yield State(rule, "the door goes as well", gone, **here)
    rule, way, agreed = "front-door-terms", "options/gpu_front_door_tls", "options/gpu_front_door_"
    words = ("nobody has agreed to the terms", "gpu_front_door_acme_agree: true")
    silent = {way: "acme"}
    yield State(rule, "nobody has agreed", silent, words, **here)
    yield State(rule, "somebody has", {**silent, agreed + "acme_agree": True}, **here)
    yield State(rule, "nobody is asked", {way: "local_ca"}, **here)
    yield State(rule, "there is no door", {**silent, agreed + "name": ""}, **here)
