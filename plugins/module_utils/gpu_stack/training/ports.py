"""Whether peers reach each other: a listener for some seconds on each host, and connections to it.

A worker whose peer's port is closed says "Started server" and waits for ever (tensorflow#46931).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import socket
import time

from ..host import listening, regular
from ..host.processes import accounts, process
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context

# What a listener says first, before the look's own token.
GREETING = "provision-train "
# Seconds that a listener waits for the next connection, and that one lasts at most.
LISTENS, PATIENCE = 20.0, 4.0
# Until a listener goes though somebody comes again and again.
LONGEST = 180.0
# A port that the kernel chooses, as NCCL's of its connections: the listener's, and no worker's.
ANY = 0
# Answers: of a listener with our token, and none at all.
OPEN, SILENT = "open", "no answer"
# Of a supervisor, in a process's cgroup: jobs.py.
_UNIT = re.compile(r"/provision-train-([a-z0-9-]+)-[0-9]+\.service(?:/|$)", re.M)
FIREWALL = "a firewall between them, or gpu_train_address of that host is not what its peers reach"


def listen(
    context: Context, ports: list[int], token: str, user: tuple[str, int, int]
) -> tuple[dict[int, str], int | None]:
    """Starts a listener on these ports, and on one that the kernel chooses, as `user`.

    Returns {port: who holds it} of those that are taken, and the chosen port; None without one. The
    listener is a process of its own, which ends by `release`, when nobody has come for LISTENS
    seconds, or after LONGEST.
    """
    held: dict[int, str] = {}
    sockets = []
    for port in [*ports, ANY]:
        try:
            sockets.append(_bound(port))
        except OSError as error:
            held[port] = _holder(context, port, error)
    chosen = None if held else int(sockets[-1].getsockname()[1])
    if held or os.fork():
        for listener in sockets:
            listener.close()
        return held, chosen
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        regular.become(*user)
        _serve(sockets, token)
    finally:
        os._exit(0)


def _bound(port: int) -> socket.socket:
    """A socket that listens on the port for IPv4 and, where the host has it, IPv6."""
    family = socket.AF_INET6 if os.path.exists("/proc/net/if_inet6") else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of a job that has just ended are not in the way; who listens is.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(("", port))
        made.listen(128)
    except OSError:
        made.close()
        raise
    return made


def _serve(sockets: list[socket.socket], token: str) -> None:
    """Greets each connection, until one asks it to end or none has come for LISTENS seconds."""
    greeting = (GREETING + token + "\n").encode("ascii")
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        ready = select.select(sockets, [], [], LISTENS)[0]
        if not ready:
            return
        for listener in ready:
            with contextlib.suppress(OSError), contextlib.closing(listener.accept()[0]) as peer:
                peer.settimeout(1.0)
                peer.sendall(greeting)
                if peer.recv(256) == _end(token):
                    return


def _end(token: str) -> bytes:
    return ("end " + token + "\n").encode("ascii")


def release(ports: list[int], token: str) -> None:
    """Ends the listener of the look with this token, and waits until its ports are free."""
    deadline = time.monotonic() + PATIENCE
    for port in ports:
        with contextlib.suppress(OSError), _local(port) as peer:
            if peer.recv(256).decode("ascii", "replace") == GREETING + token + "\n":
                peer.sendall(_end(token))
    while time.monotonic() < deadline:
        try:
            for port in ports:
                _bound(port).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def _local(port: int) -> socket.socket:
    """A connection to this host's own port, which is closed behind a `with`."""
    return socket.create_connection(("127.0.0.1", port), 1.0)


def reach(address: str, port: int, token: str, patience: float = PATIENCE) -> str:
    """OPEN, or why the listener with this token is not reached there."""
    try:
        with contextlib.closing(socket.create_connection((address, port), patience)) as peer:
            peer.settimeout(patience)
            greeting = peer.recv(256).decode("ascii", "replace")
            peer.sendall(b"\n")
    except socket.timeout:
        return SILENT + " within {0:.0f} s".format(patience)
    except OSError as error:
        return error.strerror or str(error)
    return OPEN if greeting == GREETING + token + "\n" else "something else answers there"


def reach_all(places: list[dict[str, Any]], token: str) -> list[dict[str, Any]]:
    """The places with `answer`, each asked in a thread of its own: a closed port costs its time."""
    import threading

    answers = [dict(place, answer=SILENT) for place in places]

    def ask(entry: dict[str, Any]) -> None:
        entry["answer"] = reach(entry["address"], entry["port"], token)

    threads = [threading.Thread(target=ask, args=(entry,), daemon=True) for entry in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 3)
    return answers


def _holder(context: Context, port: int, error: OSError) -> str:
    """Who listens on the port, in words."""
    if error.errno != errno.EADDRINUSE:
        return error.strerror or str(error)
    with contextlib.suppress(OSError), _local(port) as peer:
        if peer.recv(256).decode("ascii", "replace").startswith(GREETING):
            return "the look of another `provision train`, for {0:.0f} s".format(LISTENS)
    names = {fields[2]: fields[0] for fields in accounts(context)}
    sockets = listening.sockets(context, port)
    for directory in context.glob("/proc/[0-9]*/fd"):
        for name in context.listdir(directory):
            if context.readlink(directory + "/" + name) in sockets:
                pid = directory.split("/")[2]
                return _process(context, pid)
    # Whose process it is can't be read in a container without CAP_SYS_PTRACE; whose socket, always.
    users = sorted({names.get(number, number) for number in sockets.values()})
    return "a process of {0}".format(", ".join(users)) if users else "a process unknown here"


def _process(context: Context, pid: str) -> str:
    """A process in words; a worker of a training with the job that it is of."""
    folder = "/proc/" + pid
    entry = process(context, pid, (context.read(folder + "/comm") or "").strip())
    words = "{0} of {1} (pid {2})".format(
        entry["command"].split(" ")[0] or "a process", entry["user"], pid
    )
    unit = _UNIT.search(context.read(folder + "/cgroup") or "")
    return words + (", of the training {0}".format(unit.group(1)) if unit else "")
