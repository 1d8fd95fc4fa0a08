"""A file of which nobody knows the hash is taken from nobody who could be anybody."""

from __future__ import annotations

import hashlib
import http.server
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.errors import InputError
from provision.upstream import download
from tests.served import Quiet, serving

FILE = b"#!/bin/sh\n"


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    """(address, hosts) of a server that sends /away to another host, and serves the file elsewhere.

    `hosts` are those that were asked for it by a proxy's absolute address.
    """
    asked: list[str] = []

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302 if self.path.endswith("/away") else 200)
            self.send_header("Location", "http://mirror.test/run")
            self.send_header("Content-Length", str(len(FILE)))
            self.end_headers()
            self.wfile.write(FILE)

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(web) as url:
        yield url, asked


@pytest.fixture(autouse=True)
def proxy(site: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is in between answers for every host."""
    monkeypatch.setenv("http_proxy", site[0])
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)


def test_a_hash_is_not_believed_that_came_over_plain_http(
    site: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Whoever answered a plain HTTP mirror's request once chose what hosts run as root."""
    with pytest.raises(InputError, match="plain HTTP") as caught:
        download.file_of("http://mirror.test/x.run", cache=tmp_path)
    assert "driver_sha256" in caught.value.expected
    assert not site[1]


def test_a_redirection_to_plain_http_is_not_followed(
    site: tuple[str, list[str]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="plain HTTP") as caught:
        download.file_of(f"{site[0]}/away", cache=tmp_path)
    assert caught.value.got == "a redirection to http://mirror.test/run"
    assert len(site[1]) == 1


def test_a_known_hash_needs_no_https(site: tuple[str, list[str]], tmp_path: Path) -> None:
    known = hashlib.sha256(FILE).hexdigest()
    for url in ("http://mirror.test/x.run", f"{site[0]}/away"):
        file, _ = download.file_of(url, cache=tmp_path, sha256=known)
        assert file.read_bytes() == FILE
