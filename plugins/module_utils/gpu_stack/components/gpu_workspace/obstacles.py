"""What on a host is in the way of workspaces that change: ports, memory, people at work."""

import json
import re

from .. import gpu_workspace
from . import workspace_users

SSH = 22

# For the whole of an answer of somebody's Jupyter.
ANSWER, SAID = 5, 1 << 16


def touched(changes):
    """Names of the people whose containers these changes stop or start."""
    prefix = "workspace "
    items = [one["item"] for one in changes if one["component"] == gpu_workspace.NAME]
    return [item[len(prefix) :] for item in items if item.startswith(prefix)]


def stands_in_the_way(context, changes):
    """{docker, ports, memory, in_use, users, root} of the host, for those who are concerned.

    `ports` are wished for and used by something else, `in_use` is who has how many kernels,
    terminals and SSH connections open.
    """
    names, people = touched(changes), gpu_workspace.wanted(context.options)
    runs = gpu_workspace.running(context)
    ours = {}
    for name in runs or {}:
        seen = gpu_workspace.person(context, name)["settings"]
        if seen is None and name in people:
            # Whoever lost the file has the container as it was wished, most likely.
            seen = gpu_workspace.settings(
                people[name], gpu_workspace.told(context.options, context.row), {}
            )
        seen = seen or {}
        # One that was made before there were paths has none.
        place = (seen.get("address"), seen.get("base", "/"))
        ours[name] = (place, seen.get("workspace") or {})
    held = {port for _place, one in ours.values() for port in ports(one)}
    for name in gpu_workspace.there(context):
        held |= _held_now(context, name)
    wished = sorted(port for name in names if name in people for port in ports(people[name]))
    found = {
        "docker": runs is not None,
        "ports": [port for port in wished if port not in held and listening(context, port)],
        "memory": memory(context),
        "in_use": {},
        "users": workspace_users.look(context, people)["taken"],
        "root": workspace_users.unfit(context) if people else None,
        "volumes": workspace_users.swapped(context, people),
    }
    for name in names:
        if name in ours:
            count = sessions(context, name)
            (address, base), port = ours[name][0], ours[name][1].get("port")
            if address and port:
                token = context.read("{0}/{1}/token".format(gpu_workspace.PLACE, name))
                path = "{0}/{1}.jupyter".format(gpu_workspace.PORTS, name)
                # One that was made before systemd held the ports is asked at its own.
                way = path if context.lstat(path) is not None else None
                count += opened(address, port, token, base, way)
            if count:
                found["in_use"][name] = count
    return found


def _held_now(context, name):
    """The ports of the host that systemd holds for somebody."""
    person = (gpu_workspace.person(context, name)["settings"] or {}).get("workspace") or {}
    words = {"jupyter": "port", "tensorboard": "tensorboard_port"}
    return {
        person[words[what]]
        for what in words
        if words[what] in person
        and context.lstat("{0}/{1}.{2}".format(gpu_workspace.PORTS, name, what)) is not None
    }


def ports(person):
    """The ports of the host that a workspace takes."""
    return [person[key] for key in ("port", "ssh_port", "tensorboard_port") if key in person]


def sessions(context, name):
    """How many connections to sshd somebody has open, as the container's network tells."""
    try:
        state = json.loads(context.read("/run/gpu-workspace/{0}.json".format(name)) or "{}")
    except ValueError:
        return 0
    count = 0
    for path in ("tcp", "tcp6"):
        text = context.read("/proc/{0}/net/{1}".format(state.get("pid"), path)) or ""
        for line in text.splitlines()[1:]:
            words = line.split()
            count += words[3] == "01" and int(words[1].rpartition(":")[2], 16) == SSH
    return count


def listening(context, port):
    """Does anything listen on this TCP port of the host?"""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (context.read(path) or "").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                return True
    return False


def memory(context):
    """Bytes of memory of the host; None where unknown."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", context.read("/proc/meminfo") or "", re.M)
    return int(found.group(1)) * 1024 if found else None


def size(value):
    """Bytes of "16g"; 0 of what says no limit."""
    match = re.match(r"(\d+)([kmg])", (value or "").lower())
    return int(match.group(1)) << {"k": 10, "m": 20, "g": 30}[match.group(2)] if match else 0


def opened(address, port, token, base="/", way=None):
    """How many kernels and terminals somebody has open; 0 where Jupyter does not answer.

    `way` is the socket that systemd opened for root: there is nobody else whom a token could be
    told. What answers is the person's: the whole answer has ANSWER seconds and SAID bytes.
    """
    # Asked only where somebody is concerned: the import takes longer than the rest of the look.
    import http.client
    import socket
    import threading

    count = 0
    for path in (base + "api/kernels", base + "api/terminals"):
        host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 compared, not bound
        connection = http.client.HTTPConnection(host, port)
        # A time-out of the connection's is for each piece of an answer, and there may be many.
        end = threading.Timer(ANSWER, _cut, [connection])
        end.daemon = True
        try:
            if way:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(ANSWER)
                connection.sock.connect(way)
            else:
                connection.sock = socket.create_connection((host, port), timeout=ANSWER)
            end.start()
            connection.request("GET", path, headers={"Authorization": "token " + (token or "")})
            answer = connection.getresponse()
            said = answer.read(SAID).decode("utf-8", "replace")
            found = json.loads(said) if answer.status == 200 else []
            count += len(found) if isinstance(found, list) else 0
        except (OSError, ValueError, RecursionError, http.client.HTTPException):
            continue
        finally:
            end.cancel()
            connection.close()
    return count


def _cut(connection):
    """Ends an answer that never does."""
    import socket

    connection.sock.shutdown(socket.SHUT_RDWR)
