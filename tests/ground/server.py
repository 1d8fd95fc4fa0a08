"""A web server over TLS with a certificate authority of its own, for hosts on podman's network.

It counts what it sends, and fails when told to: it vanishes, or answers with something else.
"""

from __future__ import annotations

import contextlib
import http.server
import posixpath
import socket
import ssl
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import trustme

LOGIN = """<!DOCTYPE html>
<html lang="en"><head><title>Login | NVIDIA Developer</title></head>
<body><h1>NVIDIA Developer Program Membership Required</h1>
<p>You must be a member of the NVIDIA Developer Program and logged in.</p>
<form action="/login" method="post"><input name="email"></form></body></html>
"""


def bridge_address() -> str:
    """This machine's address on podman's default bridge, where the labs' hosts are.

    It is .1 of podman's default network; the bridge is there once a container runs.
    """
    from provision.locallab.machine import connect

    found = connect().call(
        "network", "inspect", "podman", "--format", "{{range .Subnets}}{{.Gateway}}{{end}}"
    )
    return found.strip() or "10.88.0.1"


class Authority:
    """A certificate authority in a directory; `bundle` is what a host must trust."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bundle = directory / "ca.pem"
        self._authority = trustme.CA(organization_name="proving ground")
        directory.mkdir(parents=True, exist_ok=True)
        self._authority.cert_pem.write_to_path(str(self.bundle))

    def issue(self, *names: str) -> tuple[Path, Path]:
        """(certificate, key) of a server with these names or addresses."""
        certificate, key = self.directory / "server.pem", self.directory / "server.key"
        issued = self._authority.issue_cert(*names)
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(str(certificate), append=number > 0)
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key


class WebServer:
    """Serves a directory over TLS; a context manager.

    `sent` counts bytes of bodies per path, `asked` the requests. `instead[path]` is answered in
    place of a file: (status, content type, body), or a callable that returns that. `vanish(after)`
    ends every answer and refuses all further ones once that many bytes more are sent; `back()`.
    """

    def __init__(
        self, root: Path, authority: Authority, *, address: str = "", port: int = 0
    ) -> None:
        self.root, self.authority = root, authority
        self.address = address or bridge_address()
        self.sent: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.instead: dict[str, Any] = {}
        self._left: int | None = None
        self._lock = threading.Lock()
        self._port = port
        self._http: http.server.ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """https://ADDRESS:PORT, as the hosts reach it."""
        return f"https://{self.address}:{self._port}"

    @property
    def bytes_sent(self) -> int:
        return sum(self.sent.values())

    def vanish(self, after: int = 0) -> None:
        with self._lock:
            self._left = after

    def back(self) -> None:
        with self._lock:
            self._left = None

    def login_wall(self, path: str) -> None:
        """Answer with a login page and status 200, as NVIDIA's site does without a login."""
        self.instead[path] = (200, "text/html; charset=utf-8", LOGIN.encode())

    def __enter__(self) -> WebServer:
        web = self

        class Handler(_Handler):
            server_of = web

        # All addresses: the bridge may not be there before the first host is.
        self._http = _Server(("0.0.0.0", self._port), Handler)  # noqa: S104
        self._port = self._http.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue(self.address, "127.0.0.1", "localhost"))
        self._http.tls = context
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._http:
            self._http.shutdown()
            self._http.server_close()

    def account(self, path: str, size: int) -> bool:
        """Count what is about to be sent; False when the server is to vanish instead."""
        with self._lock:
            if self._left is not None:
                if self._left < size:
                    self._left = 0
                    return False
                self._left -= size
            self.sent[path] += size
            return True

    @property
    def gone(self) -> bool:
        with self._lock:
            return self._left == 0


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    tls: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The handshake belongs into the connection's own thread.
        request.settimeout(60)
        try:
            secured = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            return
        with secured, contextlib.suppress(OSError):
            super().finish_request(secured, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: WebServer

    def log_message(self, *_: object) -> None:
        """Nothing: tests read `asked`."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        web = self.server_of
        # apt asks for "./name" as an index has it.
        path = posixpath.normpath(unquote(urlsplit(self.path).path))
        if web.gone:
            self._drop()
            return
        web.asked[path] += 1
        if path in web.instead:
            answer = web.instead[path]
            status, kind, data = answer() if callable(answer) else answer
            self._head(status, len(data), {"Content-Type": kind})
            if body and web.account(path, len(data)):
                self.wfile.write(data)
            return
        file = (web.root / path.lstrip("/")).absolute()
        if ".." in path.split("/") or not file.is_file():
            self._head(404, 0)
            return
        size = file.stat().st_size
        modified = self.date_time_string(int(file.stat().st_mtime))
        first = self._first(size, modified)
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
            "Last-Modified": modified,
        }
        if first:
            headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"
        self._head(206 if first else 200, size - first, headers)
        if not body:
            return
        with file.open("rb") as handle:
            handle.seek(first)
            while chunk := handle.read(1 << 18):
                if not web.account(path, len(chunk)):
                    self._drop()
                    return
                self.wfile.write(chunk)

    def _first(self, size: int, modified: str) -> int:
        """Where a Range of the form bytes=N- begins; 0 for all others, or of a file since changed.

        apt goes on with what it has, and says of when that is (If-Range).
        """
        if self.headers.get("If-Range", modified) != modified:
            return 0
        asked = self.headers.get("Range", "")
        number = asked.removeprefix("bytes=").removesuffix("-")
        return int(number) if asked and number.isdigit() and int(number) < size else 0

    def _head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _drop(self) -> None:
        """End the connection without a word, as a machine that lost its network."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
