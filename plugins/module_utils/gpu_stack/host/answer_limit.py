"""Limits how long an answer may take of a server that is not trusted."""

from __future__ import annotations

import contextlib
import socket
import threading

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Iterator


@contextlib.contextmanager
def cut_after(stream: socket.socket, seconds: float) -> Iterator[None]:
    """Ends a connection that is still in use after so many seconds.

    A socket's own time-out is for each piece of an answer, and there may be many.
    """
    # TLS takes a socket over, and so does an answer of http.client that ends with its connection.
    own = stream.dup()
    end = threading.Timer(seconds, _cut, [own])
    end.daemon = True
    end.start()
    try:
        yield
    finally:
        end.cancel()
        own.close()


def _cut(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        stream.shutdown(socket.SHUT_RDWR)
