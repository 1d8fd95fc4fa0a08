"""The fleet's cache as nginx runs it: what it asks of servers, and where they may lead hosts."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from provision.locallab.vm.guest import free_port
from tests.collection import ROOT
from tests.roles.test_artifact_cache import CONTENTS, CUDNN, INDEX, WHEELS, configuration

__all__ = ["cache_site"]
from tests.roles.test_artifact_cache import cache_site

# Where scripts/setup unpacks it.
UNPACKED = ROOT / ".venv/nginx/usr/sbin"
NGINX = shutil.which("nginx", path=f"/usr/sbin:/usr/bin:{UNPACKED}")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not on this machine")
# What a host could vary an answer by, or send for itself.
OF_A_HOST = {
    "Authorization": "Basic YTpi", "Cookie": "a=b", "X-Forwarded-Host": "evil.example.org",
    "X-Forwarded-Proto": "https", "X-Original-URL": "/other", "Accept-Language": "de",
    "Accept": "application/json", "User-Agent": "a host", "Referer": "http://x/", "Origin": "null",
    "If-None-Match": '"x"', "Range": "bytes=5-9", "Content-Length": "2",
}  # fmt: skip
# What the cache itself says; Range of files that it takes in parts.
OF_THE_CACHE = {"host", "user-agent", "accept", "range"}


class Upstream(ThreadingHTTPServer):
    """A server outside; `leads` has where it leads to, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.leads: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.path, headers, body))
        place = self.server.leads.get(self.path)
        data = b"" if place else b"of the server"
        part = headers.get("range", "").startswith("bytes=0-") and not place
        self.send_response(302 if place else 206 if part else 200)
        if place:
            self.send_header("Location", place)
        if part:
            self.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")
        self.send_header("Set-Cookie", "a=b")
        self.send_header("Refresh", "0; url=http://evil.example.org/")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words: object) -> None:
        pass


def here(text: str, folder: Path) -> str:
    """nginx's configuration with its files in a folder of the test's."""
    for path in (
        "/run/gpu-artifact-cache",
        "/var/log/gpu-artifact-cache",
        "/etc/gpu-artifact-cache",
    ):
        (folder / path.strip("/")).mkdir(parents=True, exist_ok=True)
        text = text.replace(path, f"{folder}{path}")
    # Else in folders that nginx's package makes.
    kept = "".join(
        f"    {use}_temp_path {folder}/{use};\n"
        for use in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        if f"{use}_temp_path" not in text
    )
    text = text.replace("http {\n", "http {\n" + kept, 1)
    # pytest's folders are closed to others.
    return "daemon off;\n" + text.replace("user www-data;", "user root;")


def written(folder: Path, site: dict[str, Any], **options: Any) -> Path:
    ca = folder / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(ca))
    path = folder / "nginx.conf"
    text = configuration(
        site, artifact_cache_ca_bundle=str(ca), artifact_cache_directory=str(folder / "cache"),
        **options,
    )  # fmt: skip
    (folder / "cache").mkdir()
    path.write_text(here(text, folder), "utf-8")
    return path


def test_nginx_takes_the_configuration(tmp_path: Path, cache_site: Any) -> None:
    archives = ["http://localhost/debian", "https://localhost:8443/compute/cuda"]
    contents = {
        **CONTENTS,
        "archives": archives,
        "files": {CUDNN: ["https://localhost:8443/a/b.tgz"]},
    }
    site = cache_site(
        contents, "https://localhost:8443/pypi/simple", ["https://localhost/packages/"]
    )
    path = written(tmp_path, site, artifact_cache_allow=["10.1.2.0/24"])
    done = subprocess.run(
        [str(NGINX), "-t", "-c", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


class Cache:
    """A cache at work, its server, and one that the lock does not name."""

    def __init__(self, port: int, known: Upstream, foreign: Upstream) -> None:
        self.port, self.known, self.foreign = port, known, foreign
        self.top = f"/archives/127.0.0.1_{known.server_address[1]}"

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            body = b"{}" if "Content-Length" in headers else None
            connection.request("GET", path, body, headers)
            answer = connection.getresponse()
            answered = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answered, answer.read()
        finally:
            connection.close()


@contextmanager
def serving(path: Path, port: int) -> Iterator[None]:
    """nginx at work with this configuration, of this port."""
    process = subprocess.Popen([str(NGINX), "-c", str(path)], stdin=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0 or process.poll() is not None:
                    break
            time.sleep(0.05)
        assert process.poll() is None, f"nginx ended; does somebody else listen on port {port}?"
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture
def cache(tmp_path: Path, cache_site: Any) -> Iterator[Cache]:
    port = free_port()
    servers = Upstream(), Upstream()
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    known = servers[0]
    contents = {**CONTENTS, "archives": [f"{known.url}/debian"], "files": {}}
    site = cache_site(contents, f"{known.url}/simple", [])
    path = written(
        tmp_path, site, artifact_cache_port=port, artifact_cache_address="127.0.0.1"
    )  # fmt: skip
    try:
        with serving(path, port):
            yield Cache(port, *servers)
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 on this machine")
def test_who_listens_on_all_addresses_is_reached_by_both_protocols(
    tmp_path: Path, cache_site: Any
) -> None:
    """The role itself asks 127.0.0.1."""
    port = free_port()
    local = {**CONTENTS, "archives": ["http://127.0.0.1:9/debian"], "files": {}}
    site = cache_site(local, "http://127.0.0.1:9/simple", [])
    path = written(tmp_path, site, artifact_cache_port=port, artifact_cache_address="::")
    (tmp_path / "etc/gpu-artifact-cache/www").mkdir()
    (tmp_path / "etc/gpu-artifact-cache/www/manifest.json").write_text("{}", "utf-8")
    with serving(path, port):
        for address in ("::1", "127.0.0.1"):
            connection = http.client.HTTPConnection(address, port, timeout=20)
            connection.request("GET", "/manifest.json")
            assert connection.getresponse().status == 200, address
            connection.close()


@pytest.mark.parametrize("path", ["/debian/InRelease", "/debian/a.deb", "/simple/numpy/"])
def test_what_a_host_says_of_itself_is_not_passed_on(cache: Cache, path: str) -> None:
    """It is no part of the key: whoever asks first would choose what all others get."""
    status, headers, _ = cache.get(cache.top + path, **OF_A_HOST)
    assert status in (200, 206), status
    ((asked, passed, body),) = cache.known.asked
    assert asked == path
    assert set(passed) <= OF_THE_CACHE, passed
    assert passed["host"] == f"127.0.0.1:{cache.known.server_address[1]}"
    assert passed["accept"] == ("text/html" if "simple" in path else "*/*")
    assert body == b""
    # Nor is one host given what the server said to another.
    assert not {"set-cookie", "refresh"} & set(headers)
    assert cache.get(cache.top + path)[2] == b"of the server"


def test_an_index_is_still_compared_with_the_servers(cache: Cache) -> None:
    cache.get(cache.top + "/debian/InRelease")
    time.sleep(2.1)
    cache.get(cache.top + "/debian/InRelease", **{"If-None-Match": '"of a host"'})
    assert [headers.get("if-none-match") for _, headers, _ in cache.known.asked] == [None, '"one"']


def test_a_page_of_the_index_of_wheels_is_kept_for_this_lock(cache: Cache) -> None:
    """All hosts of a run read it; not each server says that it is as it was."""
    for _ in range(2):
        assert cache.get(cache.top + "/simple/numpy/")[2] == b"of the server"
        time.sleep(2.1)
    assert [path for path, _, _ in cache.known.asked] == ["/simple/numpy/"]


@pytest.mark.parametrize("path", ["/debian/InRelease", "/debian/a.deb", "/simple/numpy/"])
def test_who_is_led_within_what_the_lock_names_comes_through_the_cache(
    cache: Cache, path: str
) -> None:
    for place in ("/debian/b", f"{cache.known.url}/debian/b"):
        cache.known.leads[path] = place
        status, headers, _ = cache.get(cache.top + path)
        assert (status, headers["location"]) == (302, f"{cache.top}/debian/b")


@pytest.mark.parametrize("path", ["/debian/InRelease", "/debian/a.deb", "/simple/numpy/"])
def test_nobody_is_led_to_a_server_that_the_lock_does_not_name(cache: Cache, path: str) -> None:
    near = cache.known.url.replace("http:", "https:")
    strange = [
        cache.foreign.url,
        near,
        f"{cache.known.url}@evil.example.org",
        f"{cache.known.url}9",
    ]
    for place in (*strange, "http://evil.example.org", "file://", "b?"):
        cache.known.leads[path] = f"{place}/debian/b"
        status, headers, text = cache.get(cache.top + path)
        assert status == 502, place
        assert "location" not in headers
        assert f"The cache was led to {place}/debian/b, and the lock names no" in text.decode()
    # //evil.example.org is a server's too, for who reads an address.
    cache.known.leads[path] = "//evil.example.org/b"
    assert cache.get(cache.top + path)[1]["location"].startswith(f"{cache.top}//evil")
    assert cache.foreign.asked == []


def test_the_index_is_found_by_a_project_of_the_lock(cache: Cache) -> None:
    status, headers, _ = cache.get("/simple/numpy/")
    assert (status, headers["location"]) == (302, f"{cache.top}/simple/numpy/")
    assert cache.get("/simple/other/")[0] == 404


def test_a_server_of_another_scheme_is_another(cache_site: Any) -> None:
    text = configuration(cache_site(CONTENTS, INDEX, WHEELS))
    assert (
        r'"~^[^ ]+ https://pypi\.org(?<artifacts_path>/.*)$" /archives/pypi.org$artifacts' in text
    )
