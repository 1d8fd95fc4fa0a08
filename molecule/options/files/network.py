"""What a lab's own network offers, on the scenario's host: so that its options have a meaning.

- port 8080: two mirrors of Debian's archive (/debian, /cuda/debian), passed through from the real
  one;
- port 8443: TLS with a certificate of the lab's own CA: the cuDNN archive, a package index
  (/simple, which sends clients on to pypi.org), and a second one (/extra), which has no files and
  lets its pages be kept;
- ports 3128 and 3129: two proxies, so that it can be told who used which.

Every request is one line of LOG: "<port> <method> <path> <status>". Runs under systemd as root.
"""

from __future__ import annotations

import http.server
import os
import re
import select
import shutil
import socket
import ssl
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path("/srv/lab")
LOG = HERE / "requests.log"
ARCHIVE = "http://deb.debian.org"
INDEX = "https://pypi.org"
# Passed on, so that apt can ask for what has changed and for the rest of a file.
ASKED = ("If-Modified-Since", "Range", "If-Range", "User-Agent")
ANSWERED = ("Content-Length", "Content-Type", "Content-Range", "Last-Modified", "ETag")


def upstream_proxy() -> dict[str, str]:
    """The proxy that this host's apt uses for the real archive."""
    for path in Path("/etc/apt/apt.conf.d").iterdir():
        found = re.search(r'^Acquire::http::Proxy "(http[^"]+)";', path.read_text("utf-8"), re.M)
        if found:
            return {"http": found.group(1)}
    return {}


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler(upstream_proxy()))


class Handler(http.server.BaseHTTPRequestHandler):
    """All servers' handler; the port says which one was asked."""

    protocol_version = "HTTP/1.1"

    def note(self, status: int) -> None:
        port = self.server.server_address[1]
        with LOG.open("a", encoding="utf-8") as stream:
            stream.write(f"{port} {self.command} {self.path} {status}\n")

    def log_message(self, *_arguments: object) -> None:
        """Nothing on stderr: LOG has it."""

    def answer(self, status: int, **headers: str) -> None:
        """A head without a body."""
        self.note(status)
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        path = self.path
        if path.startswith(("/debian/", "/cuda/debian/")):
            self.pass_on(ARCHIVE + path.removeprefix("/cuda"))
        elif path.startswith("/simple/"):
            self.answer(302, Location=INDEX + path)
        elif path.startswith("/extra/simple/"):
            self.answer(200, **{"Content-Type": "text/html", "Cache-Control": "max-age=600"})
        elif path == "/cudnn.tgz":
            self.send_file(HERE / "cudnn.tgz")
        elif path.startswith("http://"):
            self.pass_on(path)
        else:
            self.answer(404)

    def send_file(self, path: Path) -> None:
        self.note(200)
        self.send_response(200)
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        with path.open("rb") as stream:
            shutil.copyfileobj(stream, self.wfile)

    def pass_on(self, url: str) -> None:
        headers = {name: self.headers[name] for name in ASKED if self.headers[name]}
        try:
            asked = urllib.request.Request(url, headers=headers)  # noqa: S310 - http alone comes here
            answer = OPENER.open(asked, timeout=120)
        except urllib.error.HTTPError as error:
            answer = error
        except OSError:
            self.answer(502)
            return
        with answer:
            self.note(answer.status)
            self.send_response(answer.status)
            for name in ANSWERED:
                if answer.headers[name]:
                    self.send_header(name, answer.headers[name])
            if answer.headers["Content-Length"] is None:
                self.close_connection = True
                self.send_header("Connection", "close")
            self.end_headers()
            shutil.copyfileobj(answer, self.wfile)

    def do_CONNECT(self) -> None:
        """A tunnel, as proxies make them for TLS."""
        host, _, port = self.path.rpartition(":")
        try:
            other = socket.create_connection((host, int(port)), timeout=30)
        except OSError:
            self.answer(502)
            return
        self.note(200)
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.wfile.flush()
        self.close_connection = True
        pair = {self.connection: other, other: self.connection}
        with other:
            while True:
                ready, _, _ = select.select(list(pair), [], [], 300)
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    pair[one].sendall(data)
                if not ready:
                    return


def serve(port: int, tls: ssl.SSLContext | None = None) -> None:
    server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler)  # noqa: S104 - a lab's host
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / "server.pem", HERE / "server.key")
    for port in (8080, 3128, 3129):
        serve(port)
    serve(8443, context)
    # systemd's Type=notify: whoever started this may use it now.
    if "NOTIFY_SOCKET" in os.environ:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
            notify.send(b"READY=1")


if __name__ == "__main__":
    sys.exit(main())
