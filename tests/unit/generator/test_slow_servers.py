"""A server that sends a byte now and then holds no command for ever."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from provision.errors import MachineError
from provision.upstream import download, transfer
from tests.served import Quiet, serving

# In seconds, between two bytes: far less than any socket's time-out.
PAUSE = 0.05
FILE = b"x" * 5000


class Trickle(Quiet, http.server.BaseHTTPRequestHandler):
    """Sends slowly what the path names: the body, a chunk's head, the answer's head; or quickly."""

    protocol_version = "HTTP/1.1"
    ended = Event()

    def do_GET(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            getattr(self, self.path.strip("/"))()

    def _slowly(self, data: bytes) -> None:
        while not self.ended.wait(PAUSE):
            self.wfile.write(data)

    def _begin(self, name: str, value: str) -> None:
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header(name, value)
        self.end_headers()

    def body(self) -> None:
        self._begin("Content-Length", str(1 << 20))
        self._slowly(b"x")

    def without_length(self) -> None:
        self._begin("Connection", "close")
        self._slowly(b"x")

    def chunk(self) -> None:
        self._begin("Transfer-Encoding", "chunked")
        self.wfile.write(b"1;")
        self._slowly(b"x")

    def head(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        self._slowly(b"x")

    def pauses(self) -> None:
        self._begin("Content-Length", str(len(FILE)))
        for at in range(0, len(FILE), 1000):
            Event().wait(PAUSE * 4)
            self.wfile.write(FILE[at : at + 1000])


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(transfer, "SPEED_TIME", 0.4)
    monkeypatch.setattr(transfer, "ANSWER_TIME", 0.4)
    Trickle.ended.clear()
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    with serving(web) as url:
        try:
            yield url
        finally:
            Trickle.ended.set()


def into(url: str, folder: Path) -> None:
    download.into(url, folder / "file", sha256=hashlib.sha256(FILE).hexdigest())


@pytest.mark.parametrize("ask", [lambda url, _: download.fetch(url), into])
@pytest.mark.parametrize("way", ["body", "without_length", "chunk", "head"])
def test_a_server_that_trickles_is_left(
    site: str, tmp_path: Path, way: str, ask: Callable[[str, Path], object]
) -> None:
    began = time.monotonic()
    with pytest.raises(MachineError, match="cannot fetch") as caught:
        ask(f"{site}/{way}", tmp_path)
    assert time.monotonic() - began < 20
    expected = "no answer within" if way == "head" else "too slow: less than 1000 bytes a second"
    assert caught.value.got.startswith(expected)
    assert caught.value.exit_code == 7


def test_a_slow_server_and_a_slower_disk_are_waited_for(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand bytes in each fifth of a second, and a stick that takes its time for them."""
    assert download.fetch(f"{site}/pauses") == FILE
    with transfer.opened(f"{site}/pauses") as answer:
        came = b""
        for chunk in answer.chunks():
            Event().wait(0.6)
            came += chunk
    assert came == FILE


def test_a_handshake_that_trickles_is_left(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of TLS, which takes the socket away from whoever opened it."""
    ended = Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle(connection: socket.socket) -> None:
            # A record of TLS's handshake with 16 kB, of which a byte comes at a time.
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
                while not ended.wait(PAUSE):
                    connection.sendall(b"\x03")

        threading.Thread(target=lambda: trickle(server.accept()[0]), daemon=True).start()
        with pytest.raises(MachineError, match="cannot fetch") as caught:
            download.fetch(f"https://127.0.0.1:{server.getsockname()[1]}/x")
        ended.set()
    assert caught.value.got.startswith("no answer within")
