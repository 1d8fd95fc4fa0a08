"""Where everything of a served model lies on its host, and what it is called there."""

from __future__ import annotations

PLACE = "/etc/gpu-serving"
# {name: ...} of a model: what a run made, its unit's text among it.
RECORD = "serving.json"
UNITS_PLACE = "/etc/systemd/system"
WANTS = UNITS_PLACE + "/multi-user.target.wants/"
PORT_WANTS = UNITS_PLACE + "/sockets.target.wants/"
LABEL = "gpu-serving"
REVISION = "gpu-serving.revision"
# All models are on one network of docker's, which leads nowhere but to this host.
NETWORK = "gpu-servings"
# Made for a moment, to ask docker for addresses.
ASKED_NETWORK = NETWORK + ".asked"
# TensorFlow Serving's own ports, at the container's address alone.
REST, GRPC = 8501, 8500
# {what a port of the host is for: (its word in an entry, the port that it leads to)}
PORTS = {"rest": ("port", REST), "grpc": ("grpc_port", GRPC)}
INSIDE = "/models"
# What nginx of the front door reads: who has which token, and where each model is.
DOOR = PLACE + "/door"
DOOR_TOKENS, DOOR_PATHS = DOOR + "/http.conf", DOOR + "/server.conf"
DOOR_MODES = {DOOR_TOKENS: 0o600, DOOR_PATHS: 0o644}
# There from before the files are written until nginx has read them.
DOOR_UNREAD = DOOR + "/unread"
# A model's two places: a changed one is started beside the former.
SLOTS = ("a", "b")
SHIPPED_BY = "# Written by the Ansible role gpu_serving; changes made here are lost.\n"


def folder(name: str) -> str:
    return f"{PLACE}/{name}"


def container(name: str, slot: str) -> str:
    return f"{LABEL}-{name}.{slot}"


def unit(name: str, slot: str) -> str:
    """The unit that keeps a container."""
    return container(name, slot) + ".service"


def port_unit(name: str, protocol: str, kind: str = "socket") -> str:
    """The unit that holds a port of the host: `protocol` is rest or grpc."""
    return f"{LABEL}-{name}.{protocol}.{kind}"


def other(slot: str) -> str:
    return SLOTS[1] if slot == SLOTS[0] else SLOTS[0]
