"""The way from a port that systemd holds into a person's container."""

from __future__ import annotations

import os
import signal
import socket
import time

from . import docker, docker_words, places, programs

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from collections.abc import Sequence

PROXIES = ("/usr/lib/systemd/systemd-socket-proxyd", "/lib/systemd/systemd-socket-proxyd")
# The first descriptor that systemd hands over (sd_listen_fds(3)).
FIRST = 3
SERVES = {"jupyter": places.JUPYTER, "tensorboard": places.TENSORBOARD}


def relay(port: str) -> None:
    """Passes connections to a person's port on to the container, as long as it runs.

    The proxies run in the container's own network namespace, found by its process: an address or a
    port of the host could belong to somebody else by then. While no container runs, connections
    are closed; systemd keeps the port open, and starts this again.
    """
    name, _mark, service = port.rpartition(".")
    handles = range(FIRST, FIRST + int(os.environ["LISTEN_FDS"]))
    entered = _entered(name)
    if entered is None:
        for handle in handles:
            _turn_away(handle)
        return
    process, net = entered
    proxies = {_proxy(handle, handles, net, SERVES[service]) for handle in handles}
    while len(proxies) == len(handles) and _lives(process):
        time.sleep(1)
        proxies = {child for child in proxies if os.waitpid(child, os.WNOHANG)[0] == 0}
    for child in proxies:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _proxy(handle: int, handles: Sequence[int], net: int, port: int) -> int:
    """Starts the proxy of one listening socket, and returns its process.

    Each has one of its own, since a proxy serves a limited number of connections (256): whoever
    opens that many at the port, as anybody on the host may, does not close the front door's way.
    """
    child = os.fork()
    if child == 0:
        _become_proxy(handle, handles, net, port)
    return child


def _become_proxy(handle: int, handles: Sequence[int], net: int, port: int) -> None:
    """Replaces this process by the proxy; only `handle` of the handles is handed on."""
    for other in handles:
        os.set_inheritable(other, False)
    if handle == FIRST:
        os.set_inheritable(handle, True)
    else:
        os.dup2(handle, FIRST)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
    program = next((path for path in PROXIES if os.path.exists(path)), PROXIES[0])
    nobody = ("--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
    os.set_inheritable(net, True)
    words = ["nsenter", f"--net=/proc/self/fd/{net}", "setpriv", *nobody, program]
    os.execvp("nsenter", [*words, f"127.0.0.1:{port}"])  # noqa: S606


def _entered(name: str) -> tuple[int, int] | None:
    """Open file descriptors of the container's /proc/PID and of its network; None if none runs.

    docker is asked before and after: a process id can be reused once its process has ended.
    """
    before = _process(name)
    if before is None:
        return None
    try:
        process = os.open(f"/proc/{before[0]}", os.O_RDONLY | os.O_DIRECTORY)
        net = os.open("ns/net", os.O_RDONLY, dir_fd=process)
    except OSError:
        return None
    own = os.stat("/proc/self/ns/net")
    theirs = os.fstat(net)
    ours = (own.st_dev, own.st_ino) == (theirs.st_dev, theirs.st_ino)
    return None if ours or _process(name) != before else (process, net)


def _process(name: str) -> tuple[int, str] | None:
    """(pid, id) of somebody's container that runs; None where none does."""
    form = docker_words.shape(".State.Pid", ".Id", f'index .Config.Labels "{places.LABEL}"')
    code, out, _error = docker.answer(
        "inspect", "--format", form, places.container(name), timeout=programs.TIMEOUT
    )
    words = out.split()
    if code or len(words) != 3 or words[0] == "0" or words[2] != name:
        return None
    return int(words[0]), words[1]


def _lives(process: int) -> bool:
    """Does the process of an open directory of /proc still run?"""
    try:
        os.close(os.open("stat", os.O_RDONLY, dir_fd=process))
    except OSError:
        return False
    return True


def _turn_away(handle: int) -> None:
    """Ends the connections that wait at a listening socket."""
    listener = socket.socket(fileno=handle)
    listener.setblocking(False)
    try:
        while True:
            listener.accept()[0].close()
    except OSError:
        pass  # nobody waits any more
    listener.detach()
