"""Keeps hosts locked for exactly as long as this run lives, and hears how far they are.

A lock on a host that outlived its run would stop the next one; one that ended before it would let a
second run in. So a run holds the hosts by pipes, which end with its process, kill -9 included.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

HOLD_MARK = "PROVISION-HOLD "
# How long the end of a run waits for its holders; they give the steps of a cut-off run five.
HOLDERS_SECONDS = 7.0
# How often they are told that this run lives; a quarter of what makes them think otherwise.
BEAT_SECONDS = 5.0


class Holders:
    """Keeps the processes that hold the hosts for this run, by their pipes; hears what they tell.

    A worker starts a holder and hands its two pipes over through a socket that it has inherited
    (`PROVISION_HOLD` names it). From then on this process alone has them: the workers that are
    forked later close their copies at once, so that the end of this process, kill -9 included, is
    the end of the pipes, and on the hosts the end of the locks.

    `tell(host, what)` is called from a thread of its own, with what a holder says of its host.
    """

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self.run = uuid.uuid4().hex
        self._tell = tell
        self._pid = os.getpid()
        self._pipes: dict[int, tuple[str, int, bytearray]] = {}
        self._stop = threading.Event()
        self._finished = False
        # Held while pipes change hands and while a worker is forked: a copy that a worker got
        # unknown to it would keep the locks for as long as its task lasts.
        self._lock = threading.Lock()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._listen, name="provision-hold", daemon=True)

    def start(self) -> None:
        """Makes itself known to the workers that are forked from now on."""
        request = {
            "run": self.run,
            "who": _user(),
            "host": socket.gethostname(),
            "pid": self._pid,
            "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }
        os.environ["PROVISION_HOLD"] = f"{self._pid}:{self._theirs.fileno()}"
        os.environ["PROVISION_HOLD_REQUEST"] = json.dumps(request)
        os.environ["PROVISION_RUN_ID"] = self.run
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._forget,
        )
        self._thread.start()

    def stop(self, *, finished: bool) -> None:
        """Lets every host go and waits until it is so, for a few seconds at most.

        `finished`: the run came to its end; otherwise the holders end its last steps first.
        """
        self._finished = finished
        self._stop.set()
        try:
            self._theirs.send(b"{}")  # wakes the thread
        except OSError:
            return
        self._thread.join(HOLDERS_SECONDS)

    def _forget(self) -> None:
        """In a worker: these are its parent's."""
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
                        self._take(selector)
                    else:
                        self._hear(selector, key.fd)
                if self._stop.is_set():
                    if deadline == float("inf"):
                        deadline = time.monotonic() + HOLDERS_SECONDS
                        self._say(b"done\n" if self._finished else b"", last=True)
                    if not self._pipes:
                        return
                elif beat == float("inf") or time.monotonic() >= beat:
                    beat = time.monotonic() + BEAT_SECONDS
                    self._say(b"alive\n")

    def _take(self, selector: selectors.BaseSelector) -> None:
        """Takes over the pipes of one more holder."""
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
        for handle in handles:
            os.set_blocking(handle, False)
        selector.register(handles[1], selectors.EVENT_READ)
        self._lines(message["host"], rest)

    def _hear(self, selector: selectors.BaseSelector, handle: int) -> None:
        """Takes what one holder says, and its end: the host was rebooted, or let go."""
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

    def _lines(self, host: str, data: bytearray) -> None:
        while (end := data.find(b"\n")) >= 0:
            line = data[:end].decode("utf-8", "replace")
            del data[: end + 1]
            try:
                message = json.loads(line.removeprefix(HOLD_MARK)) if line else None
            except ValueError:
                continue
            if isinstance(message, dict):
                self._tell(host, message)
        if len(data) > 65536:  # no holder says such long lines
            data.clear()

    def _say(self, words: bytes, *, last: bool = False) -> None:
        """A word to every holder. After the last one its pipe is closed, which lets the host go."""
        with self._lock:
            for handle, (host, pipe, data) in list(self._pipes.items()):
                # It may have gone, or its connection takes nothing now.
                with contextlib.suppress(OSError):
                    os.write(pipe, words)
                if last:
                    os.close(pipe)
                    self._pipes[handle] = (host, -1, data)


def _user() -> str:
    """Who runs this; a container's user may have a number and no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
