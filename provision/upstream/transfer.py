"""One answer of a server, within limits: none holds a command for ever.

A socket's time-out ends a server that says nothing. One that sends a byte a minute meets no
time-out, and a download from it comes to no end: so what comes is measured, as with curl's
--speed-limit. Time in which a slow disk takes what came does not count.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

# In seconds, for a server that says nothing.
_TIMEOUT = 60
# As curl's --speed-time and --speed-limit: in so many seconds so many bytes a second, at least.
SPEED_TIME = 60
SPEED_LIMIT = 1000
# In seconds, until an answer begins: several addresses are tried, and redirections followed.
ANSWER_TIME = 300
_CHUNK = 1 << 20


class Answer:
    """A server's answer: its status, its headers and, as Content-Length says it, its length."""

    def __init__(self, raw: Any, watch: _Watch) -> None:
        self._raw = raw
        self._watch = watch
        self.status: int | None = raw.status
        self.headers = raw.headers
        length = raw.headers.get("Content-Length")
        self.length = int(length) if length and length.isdecimal() else None

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes, up to its length. TimeoutError where it comes too slowly."""
        left = self.length
        waited, came = 0.0, 0
        while left is None or left > 0:
            began = time.monotonic()
            with self._watch.within(SPEED_TIME, _too_slow()):
                chunk = self._raw.read1(_CHUNK if left is None else min(_CHUNK, left))
            if not chunk:
                return
            waited, came = waited + time.monotonic() - began, came + len(chunk)
            left = None if left is None else left - len(chunk)
            yield chunk
            if waited >= SPEED_TIME:
                if came < SPEED_LIMIT * waited:
                    raise TimeoutError(_too_slow())
                waited, came = 0.0, 0


def _too_slow() -> str:
    return f"too slow: less than {SPEED_LIMIT} bytes a second for {SPEED_TIME} s"


@contextlib.contextmanager
def opened(
    url: str | urllib.request.Request, *handlers: type[urllib.request.BaseHandler]
) -> Iterator[Answer]:
    """The answer to a request, through the environment's proxy.

    Raises what urllib raises, and TimeoutError where the answer does not begin in time.
    """
    with contextlib.closing(_Watch()) as watch:
        opener = urllib.request.build_opener(_Plain(watch), _Secure(watch), *handlers)
        with watch.within(ANSWER_TIME, f"no answer within {ANSWER_TIME} s"):
            raw = opener.open(url, timeout=_TIMEOUT)
        with raw:
            yield Answer(raw, watch)


class _Watch:
    """Breaks connections off from another thread: a call that waits for them then comes back.

    A header line that never ends is read in one call, which has no time limit of its own.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._ended = threading.Event()
        self._until: float | None = None
        self._broken = False
        threading.Thread(target=self._run, daemon=True).start()

    def connect(self, *given: Any, **named: Any) -> socket.socket:
        """As socket.create_connection; the connection is watched."""
        connected = socket.create_connection(*given, **named)
        # TLS detaches the socket; the duplicate stays usable.
        self._sockets.append(connected.dup())
        if self._broken:
            self._break()
        return connected

    @contextlib.contextmanager
    def within(self, seconds: float, message: str) -> Iterator[None]:
        """TimeoutError with this message where the block takes longer than `seconds`."""
        self._until = time.monotonic() + seconds
        try:
            yield
        except (OSError, http.client.HTTPException):
            if self._broken:
                raise TimeoutError(message) from None
            raise
        finally:
            self._until = None
        if self._broken:
            raise TimeoutError(message)

    def _run(self) -> None:
        while not self._ended.wait(min(1.0, SPEED_TIME / 4)):
            until = self._until
            if until is not None and time.monotonic() > until:
                self._broken = True
                self._break()
                return

    def _break(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):  # it has ended by itself
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the watch."""
        self._ended.set()
        for sock in self._sockets:
            sock.close()


class _PlainConnection(http.client.HTTPConnection):
    def __init__(self, *given: Any, watch: _Watch, **named: Any) -> None:
        super().__init__(*given, **named)
        # http.client's own place for another way to connect; it has no public one.
        self._create_connection = watch.connect


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, *given: Any, watch: _Watch, **named: Any) -> None:
        super().__init__(*given, **named)
        self._create_connection = watch.connect


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PlainConnection, req, watch=self._watch)  # type: ignore[arg-type]


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req, watch=self._watch)  # type: ignore[arg-type]
