"""Keeps hosts locked for exactly as long as this run lives, and receives their progress.

A lock that outlived its run would stop the next one; one that ended before it would let a second
run in. So a run holds the hosts by pipes, which close with its process, kill -9 included.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import resource
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

HOLD_MARK = "PROVISION-HOLD "
# The environment variable by which workers know the hosts that are lost: a JSON list.
LOST = "PROVISION_LOST"
# How long the end of a run waits for its holders; they give the steps of a cut-off run five.
HOLDERS_SECONDS = 7.0
# How often they get a sign of life; after four missed ones they take the run for dead.
BEAT_SECONDS = 5.0
# Open files of the run's process. It has two pipes for each host that it holds, and the usual limit
# of 1024 would end a run that works on 500 hosts at once.
OPEN_FILES = 65536


class Holders:
    """The pipes of the processes that hold the hosts for this run, and a thread that reads them.

    A worker starts a holder and hands its two pipes over through a socket that it has inherited
    (`PROVISION_HOLD` names it). From then on this process alone has them: workers that are forked
    later close their copies at once, so that the end of this process, kill -9 included, closes the
    pipes, which ends the locks on the hosts.

    A host is lost when its holder ends before the run does: another run has taken its place, or
    may. `filter/still_held.py` stops the tasks of such a host.

    `on_message(host, message)` is called from a thread of its own, with a holder's message.
    """

    def __init__(self, on_message: Callable[[str, dict[str, Any]], None]) -> None:
        self.run = uuid.uuid4().hex
        self._on_message = on_message
        self._pid = os.getpid()
        self._pipes: dict[int, tuple[str, int, bytearray]] = {}
        self._stop = threading.Event()
        self._finished = False
        self._given_up: Collection[str] = ()
        self._lost: set[str] = set()
        self._rebooting: set[str] = set()
        # Held while pipes change hands and while a worker is forked: a copy that a worker
        # inherited unnoticed would keep the locks for as long as its task lasts.
        self._lock = threading.Lock()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._listen, name="provision-hold", daemon=True)

    def start(self) -> None:
        """Sets the environment of workers that are forked from now on, and starts the thread."""
        request = {
            "run": self.run,
            "who": _user(),
            "host": socket.gethostname(),
            "pid": self._pid,
            "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }
        _allow_files()
        os.environ["PROVISION_HOLD"] = f"{self._pid}:{self._theirs.fileno()}"
        os.environ["PROVISION_HOLD_REQUEST"] = json.dumps(request)
        os.environ["PROVISION_RUN_ID"] = self.run
        os.environ[LOST] = "[]"
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._forget,
        )
        self._thread.start()

    def reboots(self, host: str) -> None:
        """The run reboots this host, which ends its holder: it is not lost by that."""
        with self._lock:
            self._rebooting.add(host)

    def stop(self, *, finished: bool, given_up: Collection[str] = ()) -> None:
        """Releases every host and waits for it, a few seconds at most.

        `finished`: the run reached its end; otherwise the holders end its last steps first. So do
        those of hosts that were `given_up`: a task was not done in its time, and may still run.
        """
        self._finished = finished
        self._given_up = given_up
        self._stop.set()
        try:
            self._theirs.send(b"{}")  # wakes the thread
        except OSError:
            return
        self._thread.join(HOLDERS_SECONDS)

    def _forget(self) -> None:
        """Closes a worker's copies of its parent's pipes."""
        self._lock.release()
        self._ours.close()
        for handle, (_host, pipe, _data) in self._pipes.items():
            os.close(handle)
            if pipe >= 0:
                os.close(pipe)
        self._pipes.clear()

    def _listen(self) -> None:
        deadline = beat = float("inf")
        with selectors.DefaultSelector() as selector:
            selector.register(self._ours, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                wait = min(beat, deadline) - time.monotonic()
                for key, _events in selector.select(max(0.0, wait) if self._pipes else None):
                    if key.fileobj is self._ours:
                        self._accept(selector)
                    else:
                        self._receive(selector, key.fd)
                if self._stop.is_set():
                    if deadline == float("inf"):
                        deadline = time.monotonic() + HOLDERS_SECONDS
                        self._release()
                    if not self._pipes:
                        return
                elif beat == float("inf") or time.monotonic() >= beat:
                    beat = time.monotonic() + BEAT_SECONDS
                    self._send(b"alive\n")

    def _accept(self, selector: selectors.BaseSelector) -> None:
        """Takes over the pipes of a new holder."""
        with self._lock:
            flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            data, handles, _flags, _address = socket.recv_fds(self._ours, 65536, 2, flags)
            if len(handles) != 2:
                return
            for handle in handles:
                os.set_inheritable(handle, False)
            message = json.loads(data)
            rest = bytearray(message["rest"].encode())
            self._pipes[handles[1]] = (message["host"], handles[0], rest)
            self._rebooting.discard(message["host"])
            self._note(self._lost - {message["host"]})
        for handle in handles:
            os.set_blocking(handle, False)
        selector.register(handles[1], selectors.EVENT_READ)
        self._lines(message["host"], rest)

    def _receive(self, selector: selectors.BaseSelector, handle: int) -> None:
        """Reads from a holder; closes its pipes at its end (a reboot, or a released host)."""
        host, pipe, data = self._pipes[handle]
        try:
            more = os.read(handle, 65536)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if more:
            data += more
            self._lines(host, data)
            return
        selector.unregister(handle)
        with self._lock:
            del self._pipes[handle]
            os.close(handle)
            if pipe >= 0:
                os.close(pipe)
            held = {other for other, _pipe, _data in self._pipes.values()} | self._rebooting
            if not self._stop.is_set():
                self._note(self._lost | ({host} - held))

    def _note(self, lost: set[str]) -> None:
        """Lets workers that are forked from now on know which hosts are lost."""
        self._lost = lost
        os.environ[LOST] = json.dumps(sorted(lost))

    def _lines(self, host: str, data: bytearray) -> None:
        """Passes the complete lines of `data` on as messages, and removes them from it."""
        while (end := data.find(b"\n")) >= 0:
            line = data[:end].decode("utf-8", "replace")
            del data[: end + 1]
            try:
                message = json.loads(line.removeprefix(HOLD_MARK)) if line else None
            except ValueError:
                continue
            if isinstance(message, dict):
                self._on_message(host, message)
        if len(data) > 65536:  # no holder writes such long lines
            data.clear()

    def _send(self, line: bytes) -> None:
        """Writes to every holder."""
        with self._lock:
            for _host, pipe, _data in self._pipes.values():
                # It may have ended, or its connection may be stuck.
                with contextlib.suppress(OSError):
                    os.write(pipe, line)

    def _release(self) -> None:
        """Closes every holder's pipe, which releases its host; first says where all is done."""
        with self._lock:
            for handle, (host, pipe, data) in list(self._pipes.items()):
                if self._finished and host not in self._given_up:
                    with contextlib.suppress(OSError):
                        os.write(pipe, b"done\n")
                os.close(pipe)
                self._pipes[handle] = (host, -1, data)


def _allow_files() -> None:
    """Raises this process's limit of open files, as far as its own bound allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _user() -> str:
    """The user who runs this; in a container it may have a number and no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
