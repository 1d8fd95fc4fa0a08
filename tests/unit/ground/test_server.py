"""The proving ground's web server: bytes counted, and failures on demand."""

from __future__ import annotations

import email.utils
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ground.server import Authority, WebServer


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    root = tmp_path / "www"
    root.mkdir()
    (root / "big").write_bytes(b"x" * 1_000_000)
    with WebServer(root, Authority(tmp_path / "tls"), address="127.0.0.1") as server:
        yield server


def get(web: WebServer, path: str, *, trusting: bool = True, start: int = 0, of: str = "") -> bytes:
    context = ssl.create_default_context(cafile=str(web.authority.bundle) if trusting else None)
    asked = urllib.request.Request(web.url + path)  # noqa: S310
    if start:
        asked.add_header("Range", f"bytes={start}-")
    if of:
        asked.add_header("If-Range", of)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(asked, timeout=10) as answer:
        return bytes(answer.read())


def test_it_counts_what_it_sends(web: WebServer) -> None:
    assert len(get(web, "/big")) == 1_000_000
    assert len(get(web, "/big", start=999_000)) == 1000
    assert web.sent == {"/big": 1_001_000}
    assert web.asked["/big"] == 2
    assert web.bytes_sent == 1_001_000


def test_the_rest_of_a_file_that_was_changed_is_all_of_it(web: WebServer) -> None:
    file = web.root / "big"
    then = email.utils.formatdate(int(file.stat().st_mtime), usegmt=True)
    assert len(get(web, "/big", start=999_000, of=then)) == 1000
    os.utime(file, (1, 1))
    assert len(get(web, "/big", start=999_000, of=then)) == 1_000_000


def test_only_who_knows_the_authority_trusts_it(web: WebServer) -> None:
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        get(web, "/big", trusting=False)


def test_it_vanishes_in_the_middle_and_comes_back(web: WebServer) -> None:
    web.vanish(after=500_000)
    with pytest.raises((http.client.IncompleteRead, OSError)):
        get(web, "/big")
    with pytest.raises((http.client.HTTPException, OSError)):
        get(web, "/big")
    web.back()
    assert len(get(web, "/big")) == 1_000_000


def test_a_login_page_in_place_of_a_file(web: WebServer) -> None:
    web.login_wall("/big")
    assert get(web, "/big").startswith(b"<!DOCTYPE html>")
    del web.instead["/big"]
    assert get(web, "/big")[:1] == b"x"


def test_nothing_outside_is_served(web: WebServer) -> None:
    for path in ("/../tls/ca.key", "/none"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(web, path)
