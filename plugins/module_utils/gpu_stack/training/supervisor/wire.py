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

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable

# Bytes of one message; its lines are short.
LIMIT = 1 << 20
# Seconds for one question and its answer, and for each part of a file.
PATIENCE = 10.0
PART = 1 << 20


class WireError(Exception):
    """The other side did not answer, or is none of this job."""


def _mac(secret: str, direction: str, challenge: str, text: str) -> str:
    """Bound to the challenge, so that nothing can be said twice, and to who says it."""
    data = "\n".join((direction, challenge, text)).encode()
    return hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()


def _send(stream: Any, secret: str, direction: str, challenge: str, content: Any) -> None:
    text = json.dumps(content)
    stream.write((_mac(secret, direction, challenge, text) + " " + text + "\n").encode())
    stream.flush()


def _receive(stream: Any, secret: str, direction: str, challenge: str) -> Any:
    line = stream.readline(LIMIT).decode("utf-8", "replace")
    mac, _space, text = line.rstrip("\n").partition(" ")
    if not hmac.compare_digest(mac, _mac(secret, direction, challenge, text)):
        raise WireError("an answer that is not of this job" if line else "no answer")
    return json.loads(text)


def ask(address: tuple[str, int], secret: str, question: Any, target: str | None = None) -> Any:
    """The answer to a question; with `target`, the file of the answer is written there.

    Raises WireError.
    """
    try:
        with socket.create_connection(address, PATIENCE) as connection:
            stream = connection.makefile("rwb")
            challenge = stream.readline(256).decode("ascii", "replace").strip()
            _send(stream, secret, "question", challenge, question)
            answer = _receive(stream, secret, "answer", challenge)
            if target is not None:
                _take(stream, target, answer["size"], answer["sha256"])
            return answer
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WireError(str(error)) from None


def _take(stream: Any, target: str, size: int, digest: str) -> None:
    """Writes so many bytes to a file. Raises WireError where they are others than announced."""
    seen = hashlib.sha256()
    with open(target, "wb") as file:
        while size:
            data = stream.read(min(size, PART))
            if not data:
                raise WireError("the connection was cut off")
            seen.update(data)
            file.write(data)
            size -= len(data)
    if seen.hexdigest() != digest:
        raise WireError("the file arrived damaged")


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


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE
    server: Server

    def handle(self) -> None:
        challenge = os.urandom(16).hex()
        self.wfile.write(challenge.encode() + b"\n")
        question = _receive(self.rfile, self.server.secret, "question", challenge)
        answer, path = self.server.reply(question)
        if path is not None:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                answer = dict(answer, size=size, sha256=_digest(file))
                _send(self.wfile, self.server.secret, "answer", challenge, answer)
                file.seek(0)
                for part in iter(lambda: file.read(PART), b""):
                    self.wfile.write(part)
        else:
            _send(self.wfile, self.server.secret, "answer", challenge, answer)


def _digest(file: BinaryIO) -> str:
    seen = hashlib.sha256()
    for part in iter(lambda: file.read(PART), b""):
        seen.update(part)
    return seen.hexdigest()
