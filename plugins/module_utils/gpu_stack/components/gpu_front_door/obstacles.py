"""Finds what prevents a front door: programs on its ports, and clashing sites of nginx."""

from __future__ import annotations

import re

from ...host import listening
from ...type_checking import TYPE_CHECKING
from .renewal import programs
from .renewal.paths import GROUP, NGINX, SITE
from .renewal.programs import RefusedError
from .wishes import ports_of

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context


def holders(host: Context, port: int) -> list[str]:
    """Names of the programs that listen on this TCP port of the host, from /proc."""
    sockets = listening.sockets(host, port).keys()
    names = set()
    for number in host.listdir("/proc") if sockets else ():
        handles = f"/proc/{number}/fd"
        if not number.isdigit():
            continue
        links = {host.readlink(f"{handles}/{name}") for name in host.listdir(handles)}
        if links & sockets:
            names.add((host.read(f"/proc/{number}/comm") or "?").strip())
    return sorted(names) or (["an unknown program"] if sockets else [])


def others_at(host: Context, wish: dict[str, Any]) -> dict[int, list[str]]:
    """{port of the door: names of the programs other than nginx that listen there}."""
    others = {}
    for port in ports_of(wish):
        names = [name for name in holders(host, port) if name != "nginx"]
        if names:
            others[port] = names
    return others


def clashes(path: str, content: str, wish: dict[str, Any]) -> list[str]:
    """Why another site of nginx clashes with the door."""
    plain, reasons = re.sub(r"#.*", "", content), []
    for words in re.findall(r"\bserver_name\s+([^;]+);", plain):
        if wish["name"] in words.split():
            reasons.append("{0} has the name {1} already".format(path, wish["name"]))
    for listen in re.findall(r"\blisten\s+([^;]+);", plain):
        place, _mark, rest = listen.partition(" ")
        port = place.rpartition(":")[2]
        if port == str(wish["port"]) and "ssl" not in rest.split():
            reasons.append("{0} speaks plain HTTP at port {1}".format(path, wish["port"]))
        # nginx can't open the port for IPv4 as well, and reports that only after a reload.
        if port in map(str, ports_of(wish)) and "ipv6only=off" in rest.split():
            reasons.append(f"{path} has port {port} of IPv4 and IPv6 in one")
    return reasons


def configuration() -> list[tuple[str, str]]:
    """nginx's whole configuration as [(file, text)]; RefusedError if nginx rejects it."""
    code, out, error = programs.call([NGINX, "-T"])
    if code:
        raise RefusedError(f"nginx rejects its own configuration: {error.strip()[-400:]}")
    parts = re.split(r"^# configuration file (\S+):\n", out, flags=re.M)
    return [(parts[at], parts[at + 1]) for at in range(1, len(parts) - 1, 2)]


def in_the_way(wish: dict[str, Any], configured: list[tuple[str, str]]) -> str | None:
    """Why this nginx or its other sites prevent the door; None where nothing does."""
    contents = "".join(content for _path, content in configured)
    if not re.search(r"^\s*include\s+\S*sites-enabled/", contents, re.M):
        return "nginx reads no /etc/nginx/sites-enabled here; the distribution's nginx does"
    user = re.search(r"^\s*user\s+(\S+?)(?:\s+(\S+?))?\s*;", contents, re.M)
    if user and (user.group(2) or user.group(1)) not in (GROUP, "root"):
        return (
            f"nginx works as {user.group(1)} here; the ways to the workspaces are opened to {GROUP}"
        )
    for path, content in configured:
        if path != SITE:
            for reason in clashes(path + " of nginx", content, wish):
                return reason
    return None
