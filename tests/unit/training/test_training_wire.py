"""What supervisors say to each other, and who else is at the port, over this machine's sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.training.supervisor import wire

SECRET = "right"  # noqa: S105


@contextmanager
def serving(reply: Callable[[Any], tuple[dict[str, Any], str | None]]) -> Iterator[int]:
    """The port of a server of ours."""
    server = wire.Server(0, SECRET, reply)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def rogue(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port at which somebody else answers each connection in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            with peer:
                answer(peer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def line(peer: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        data += peer.recv(1)
    return data


def test_an_answer_that_somebody_has_read_is_none_of_a_later_question() -> None:
    """He has it from the network, and the port of a worker 0 that is gone."""
    received: list[bytes] = []

    def between(peer: socket.socket) -> None:
        if received:
            challenge, answer = received
            peer.sendall(challenge)
            line(peer)
            peer.sendall(answer)
            return
        with socket.create_connection(("127.0.0.1", true), 5) as server:
            received.append(line(server))
            peer.sendall(received[0])
            server.sendall(line(peer))
            received.append(line(server))
            peer.sendall(received[1])

    with serving(lambda _question: ({"do": "end"}, None)) as true, rogue(between) as port:
        assert wire.ask(("127.0.0.1", port), SECRET, {"worker": 1}) == {"do": "end"}
        with pytest.raises(wire.WireError, match="not of this job"):
            wire.ask(("127.0.0.1", port), SECRET, {"worker": 1})


@pytest.mark.parametrize("text", [b"", b"SSH-2.0-x\r\n", b"\xff" * 1000, b"a\nb c\n", b"\n\n"])
def test_who_answers_something_else_is_none_of_the_job(text: bytes) -> None:
    with rogue(lambda peer: peer.sendall(text)) as port, pytest.raises(wire.WireError):
        wire.ask(("127.0.0.1", port), SECRET, {})


def test_who_answers_a_byte_at_a_time_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PATIENCE", 0.4)

    def trickle(peer: socket.socket) -> None:
        for _byte in range(100):
            try:
                peer.sendall(b"x")
            except OSError:
                return
            time.sleep(0.05)

    begun = time.monotonic()
    with rogue(trickle) as port, pytest.raises(wire.WireError):
        wire.ask(("127.0.0.1", port), SECRET, {})
    assert time.monotonic() - begun < 3


def test_a_file_follows_its_answer_and_one_that_was_changed_is_refused(tmp_path: Path) -> None:
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(bytes(range(256)) * 20_000)
    with serving(lambda _question: ({"wait": False}, str(sent))) as true:
        answer = wire.ask(("127.0.0.1", true), SECRET, {"backup": 0}, target=str(got))
        assert answer["wait"] is False
        assert got.read_bytes() == sent.read_bytes()

        def change(peer: socket.socket) -> None:
            with socket.create_connection(("127.0.0.1", true), 5) as server:
                peer.sendall(line(server))
                server.sendall(line(peer))
                peer.sendall(line(server))
                for data in iter(lambda: server.recv(1 << 20), b""):
                    peer.sendall(data.replace(b"\x07\x08", b"\x07\x07"))

        with rogue(change) as port, pytest.raises(wire.WireError, match="damaged"):
            wire.ask(("127.0.0.1", port), SECRET, {"backup": 0}, target=str(got))
