"""Workspaces and the front door, as seen without a token."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from .system import ANSWER_LIMIT, cut_off, read, run


def workspaces(people: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """{name: state of the person's workspace}, as any user of the host sees it, without a token.

    The program that starts a container writes /run/gpu-workspace/NAME.json, readable by all.
    """
    answers = {}
    for name in sorted(person["name"] for person in people):
        try:
            state = json.loads(read(f"/run/gpu-workspace/{name}.json") or "{}")
        except ValueError:
            state = {}
        unit = run(["systemctl", "is-active", f"gpu-workspace@{name}.service"])
        groups = state.get("groups") or {}
        answers[name] = {
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
    return answers


def http_status(address: str | None, port: int | None, path: str) -> int | None:
    """The status of a GET without a token; None where nothing answers within PATIENCE seconds."""
    if not address or not port:
        return None
    import http.client

    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.connect()
        with cut_off(connection.sock):
            connection.request("GET", path)
            return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


# The door's own authority; the chain of a certificate that was given to it, or that an ACME server
# other than Let's Encrypt issued (Let's Encrypt is in every host's trust store).
DOOR_TRUST = ("/etc/gpu-front-door/ca.crt", "/etc/gpu-front-door/chain.pem")


def front_door(options: dict[str, Any]) -> dict[str, Any]:
    """The front door's page and paths, as seen with its name and authority but no token."""
    door = {key: options["gpu_front_door_" + key] for key in ("name", "port", "address")}
    page = through(door, "/")
    answer = {"page": page, "paths": {}, "plain": through(door, "/", tls=False)["status"]}
    for workspace in options["gpu_workspaces"]:
        paths = [""]
        if "port" in workspace:
            paths = ["api/status"] + (["tensorboard/"] if workspace.get("tensorboard_port") else [])
        for path in paths:
            url_path = f"/{workspace['name']}/{path}"
            answer["paths"][url_path] = through(door, url_path)["status"]
    page["names"] = re.findall(r'<th scope="row">([a-z0-9_-]+)</th>', page.pop("body"))
    return answer


def through(door: dict[str, Any], path: str, tls: bool = True) -> dict[str, Any]:
    """GETs a path of the door: {status, body, tls (version), error}; verifies the certificate.

    Behind it may be a person's own server, which is not trusted: PATIENCE seconds at most, and
    ANSWER_LIMIT bytes of its body.
    """
    import http.client
    import socket

    result: dict[str, Any] = {"status": None, "body": "", "tls": None, "error": None}
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 compared, not bound
    address = near.get(door["address"], door["address"])
    connection = None
    try:
        connection = socket.create_connection((address, door["port"]), timeout=15)
        with cut_off(connection):
            if tls:
                connection = trusting().wrap_socket(connection, server_hostname=door["name"])
                result["tls"] = connection.version()
            client = http.client.HTTPConnection(door["name"], door["port"], timeout=15)
            client.sock = connection
            client.request("GET", path, headers={"Host": door["name"]})
            response = client.getresponse()
            result["status"] = response.status
            result["body"] = response.read(ANSWER_LIMIT).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        result["error"] = str(error) or type(error).__name__
    finally:
        if connection is not None:
            connection.close()
    return result


def trusting() -> Any:
    """A TLS context that trusts the host's authorities and the door's."""
    import ssl

    context = ssl.create_default_context()
    for place in DOOR_TRUST:
        if os.access(place, os.R_OK):
            context.load_verify_locations(cafile=place)
    # X509_V_FLAG_PARTIAL_CHAIN: a given certificate's authority may be unknown to this
    # host; its name and dates are verified all the same.
    context.verify_flags |= 0x80000
    return context


def ssh_offers(name: str, address: str | None, port: int | None) -> str | None:
    """The authentication methods that an sshd offers ("publickey,password"); "" without an answer.

    None without a port, or where this host has no ssh client.
    """
    if not address or not port:
        return None
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
    options = ("BatchMode=yes", "PreferredAuthentications=none", "ConnectTimeout=10")
    unknown = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
    arguments = [word for option in (*options, *unknown) for word in ("-o", option)]
    answer = run(["ssh", "-F", "/dev/null", "-p", str(port), *arguments, f"{name}@{host}", "true"])
    if answer["rc"] == 127:
        return None
    methods = re.search(r"Permission denied \(([a-z,-]+)\)", answer["stderr"])
    return methods.group(1) if methods else ""
