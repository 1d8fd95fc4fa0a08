"""Workspaces and the front door, as somebody without a token sees them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from .system import read, run


def workspaces(people: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each person's workspace as anybody of the host may see it; no token is asked with.

    The program that starts a container notes it where all can read: /run/gpu-workspace/NAME.json.
    """
    found = {}
    for name in sorted(one["name"] for one in people):
        try:
            state = json.loads(read(f"/run/gpu-workspace/{name}.json") or "{}")
        except ValueError:
            state = {}
        unit = run(["systemctl", "is-active", f"gpu-workspace@{name}.service"])
        groups = state.get("groups") or {}
        found[name] = {
            "unit": unit["stdout"].strip(),
            "error": state.get("error"),
            "status": http_status(
                state.get("address"), state.get("port"), state.get("base", "/") + "api/status"
            ),
            "tensorboard": http_status(
                "127.0.0.1", state.get("tensorboard_port"), f"/{name}/tensorboard/"
            ),
            "ssh": ssh_offers(name, state.get("ssh_address"), state.get("ssh_port")),
            "ssh_ways": state.get("ssh_ways"),
            "limits": {key: (read(groups[key]) or "").split() for key in sorted(groups)},
        }
    return found


def http_status(address: str | None, port: int | None, path: str) -> int | None:
    """What is said to somebody without a token; None where nothing answers."""
    if not address or not port:
        return None
    import http.client

    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


# The authority of a door that is its own; the certificate of one that was given it, or that an ACME
# server has issued which is not Let's Encrypt: that one's has to be known to everybody.
DOOR_TRUST = ("/etc/gpu-front-door/ca.crt", "/etc/gpu-front-door/chain.pem")


def front_door(options: dict[str, Any]) -> dict[str, Any]:
    """The door as anybody sees it who has its name and its authority, and no token."""
    door = {key: options["gpu_front_door_" + key] for key in ("name", "port", "address")}
    page = through(door, "/")
    found = {"page": page, "paths": {}, "plain": through(door, "/", tls=False)["status"]}
    for one in options["gpu_workspaces"]:
        paths = [""]
        if "port" in one:
            paths = ["api/status"] + (["tensorboard/"] if one.get("tensorboard_port") else [])
        for path in paths:
            whole = f"/{one['name']}/{path}"
            found["paths"][whole] = through(door, whole)["status"]
    page["names"] = re.findall(r'<th scope="row">([a-z0-9_-]+)</th>', page.pop("body"))
    return found


def through(door: dict[str, Any], path: str, tls: bool = True) -> dict[str, Any]:
    """{status, body, version of TLS, error} of one answer; the certificate is looked at."""
    import http.client
    import socket
    import ssl

    found: dict[str, Any] = {"status": None, "body": "", "tls": None, "error": None}
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 compared, not bound
    address = near.get(door["address"], door["address"])
    connection = None
    try:
        connection = socket.create_connection((address, door["port"]), timeout=15)
        if tls:
            context = ssl.create_default_context()
            for place in DOOR_TRUST:
                if os.access(place, os.R_OK):
                    context.load_verify_locations(cafile=place)
            # What was given may be of an authority that this host has never heard of; its name
            # and its days are compared all the same. X509_V_FLAG_PARTIAL_CHAIN.
            context.verify_flags |= 0x80000
            connection = context.wrap_socket(connection, server_hostname=door["name"])
            found["tls"] = connection.version()
        client = http.client.HTTPConnection(door["name"], door["port"], timeout=15)
        client.sock = connection
        client.request("GET", path, headers={"Host": door["name"]})
        answer = client.getresponse()
        found["status"] = answer.status
        found["body"] = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        found["error"] = str(error) or type(error).__name__
    finally:
        if connection is not None:
            connection.close()
    return found


def ssh_offers(name: str, address: str | None, port: int | None) -> str | None:
    """What an sshd lets somebody in by, as it says itself; "" without an answer.

    None where there is no port, or no ssh on this host to ask with.
    """
    if not address or not port:
        return None
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    options = ("BatchMode=yes", "PreferredAuthentications=none", "ConnectTimeout=10")
    unknown = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
    words = [word for one in (*options, *unknown) for word in ("-o", one)]
    asked = run(["ssh", "-F", "/dev/null", "-p", str(port), *words, f"{name}@{host}", "true"])
    if asked["rc"] == 127:
        return None
    ways = re.search(r"Permission denied \(([a-z,-]+)\)", asked["stderr"])
    return ways.group(1) if ways else ""
