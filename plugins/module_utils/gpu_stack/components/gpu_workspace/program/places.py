"""Where everything of a workspace lies on its host, and what it is called there."""

from __future__ import annotations

PLACE = "/etc/gpu-workspace"
STATE = "/run/gpu-workspace"
# {name: uid} of everybody who ever had a workspace here: a uid is never another person's.
USERS = "/var/lib/gpu-workspace/users.json"
# Whom everybody was before each had a uid of their own.
FORMER_USER = "1000:1000"
# Directories that hold more than homes: nobody else may enter the homes' root.
SHARED_PLACES = {
    "/" + name
    for name in (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc"),
        *("root", "run", "sbin", "srv", "sys", "tmp", "usr", "usr/local", "var", "var/lib"),
        *("var/tmp", "var/lib/docker", "var/lib/gpu-workspace"),
    )
}
UNIT = "gpu-workspace@{0}.service"
WANTS = "/etc/systemd/system/multi-user.target.wants/"
# What leads to a container: PORT.format("ada.jupyter") and the path that systemd opens for it.
PORT = "gpu-workspace-port@{0}.socket"
PORTS = "/run/gpu-workspace-ports"
UNITS_PLACE = "/etc/systemd/system"
PORT_WANTS = UNITS_PLACE + "/sockets.target.wants/"
LABEL = "gpu-workspace"
REVISION = "gpu-workspace.revision"
SHOWN = "/run/gpu-workspace"
INSIDE = SHOWN + "/token"
JUPYTER = 8888
SSH = 22
TENSORBOARD = 6006
# All workspaces are on one network of docker's, on which they do not reach each other.
NETWORK = "gpu-workspaces"


class RefusedError(Exception):
    """Nothing was stopped and nothing is lost; the text says why."""


def folder(name: str) -> str:
    return f"{PLACE}/{name}"


def container(name: str) -> str:
    return f"{LABEL}-{name}"


def home_of(root: str, name: str) -> str:
    return f"{root}/{name}"
