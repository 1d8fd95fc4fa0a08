"""Supervisors talk: a question and an answer a connection, both signed with the job's secret.

Anybody can connect to the port. Who does not know the secret can neither order a worker to stop nor
plant a backup; that they read what is said is no worse than that they read the gradients, which
TensorFlow sends as they are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import socketserver
import time

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

# Bytes of one message; its lines are short.
LIMIT = 1 << 20
# Seconds for one question and its answer as a whole, and for each part of a file.
PATIENCE = 10.0
PART = 1 << 20


class WireError(Exception):
    """The other side did not answer, or is none of this job."""


class _Stream:
    """What comes from a socket. Who sends a byte now and then holds up nobody for long."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._rest = connection, b""
        self.begin()

    def begin(self) -> None:
        """From now on the next part has its whole time."""
        self._deadline = time.monotonic() + PATIENCE

    def _more(self, size: int) -> bytes:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise WireError("no whole answer within {0:.0f} s".format(PATIENCE))
        self._connection.settimeout(left)
        return self._connection.recv(size)

    def line(self, limit: int) -> str:
        """The next line without its end; what there is of it where the connection or the limit is
        at its end.
        """
        while b"\n" not in self._rest and len(self._rest) < limit:
            data = self._more(65536)
            if not data:
                break
            self._rest += data
        line, _end, self._rest = self._rest.partition(b"\n")
        return line[:limit].decode("utf-8", "replace")

    def part(self, size: int) -> bytes:
        """The next bytes, `size` of them at most; none where the connection is at its end."""
        if not self._rest:
            return self._more(size)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _mac(secret: str, direction: str, challenge: str, text: str) -> str:
    """Bound to what both sides have drawn, so that nothing can be said twice, and to who says it.

    challenge: of a question the server's alone; of an answer also the asker's: else who has read
    one could answer with it for ever, at the port of a worker 0 that is gone.
    """
    data = "\n".join((direction, challenge, text)).encode()
    return hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()


def _signed(secret: str, direction: str, challenge: str, content: Any) -> bytes:
    text = json.dumps(content)
    return (_mac(secret, direction, challenge, text) + " " + text + "\n").encode()


def _receive(stream: _Stream, secret: str, direction: str, challenge: str) -> Any:
    line = stream.line(LIMIT)
    mac, _space, text = line.partition(" ")
    if not hmac.compare_digest(mac.encode(), _mac(secret, direction, challenge, text).encode()):
        raise WireError("an answer that is not of this job" if line else "no answer")
    return json.loads(text)


def ask(address: tuple[str, int], secret: str, question: Any, target: str | None = None) -> Any:
    """The answer to a question; with `target`, the file of the answer is written there.

    Raises WireError.
    """
    try:
        with socket.create_connection(address, PATIENCE) as connection:
            stream = _Stream(connection)
            challenge, nonce = stream.line(256), os.urandom(16).hex()
            asked = {"nonce": nonce, "question": question}
            connection.sendall(_signed(secret, "question", challenge, asked))
            answer = _receive(stream, secret, "answer", challenge + nonce)
            if target is not None:
                digest = _take(stream, target, answer["size"])
                if digest != _receive(stream, secret, "file", challenge + nonce):
                    raise WireError("the file arrived damaged")
            return answer
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WireError(str(error)) from None


def _take(stream: _Stream, target: str, size: int) -> str:
    """Writes so many bytes to a file; returns their digest. Raises WireError where some miss."""
    seen = hashlib.sha256()
    with open(target, "wb") as file:
        while size:
            stream.begin()
            data = stream.part(min(size, PART))
            if not data:
                raise WireError("the connection was cut off")
            seen.update(data)
            file.write(data)
            size -= len(data)
    stream.begin()
    return seen.hexdigest()


class Server(socketserver.ThreadingTCPServer):
    """Answers questions by `reply(question)`: (answer, path of a file that follows it, or None)."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, port: int, secret: str, reply: Callable[[Any], tuple[dict[str, Any], str | None]]
    ) -> None:
        self.secret, self.reply = secret, reply
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            self.address_family = socket.AF_INET6  # takes IPv4 too
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Someone who connects and leaves, or lies, is nothing to write about."""


class _Handler(socketserver.BaseRequestHandler):
    server: Server

    def handle(self) -> None:
        connection: socket.socket = self.request
        secret, challenge = self.server.secret, os.urandom(16).hex()
        connection.sendall(challenge.encode() + b"\n")
        asked = _receive(_Stream(connection), secret, "question", challenge)
        both = challenge + asked["nonce"]
        answer, path = self.server.reply(asked["question"])
        connection.settimeout(PATIENCE)
        if path is None:
            connection.sendall(_signed(secret, "answer", both, answer))
            return
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            connection.sendall(_signed(secret, "answer", both, dict(answer, size=size)))
            # Signed behind it and not before: reading gigabytes twice takes longer than PATIENCE.
            seen = hashlib.sha256()
            for part in iter(lambda: file.read(PART), b""):
                seen.update(part)
                connection.sendall(part)
            connection.sendall(_signed(secret, "file", both, seen.hexdigest()))
