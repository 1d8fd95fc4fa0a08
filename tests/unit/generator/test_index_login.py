"""Wheels of an index that wants a login are fetched with it, and no other host sees it."""

from __future__ import annotations

import base64
import http.server
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.errors import MachineError
from provision.upstream import wheel_files
from provision.upstream.exact import Exact, Places
from tests.served import Quiet, serving
from tests.unit.bundle.world import sha256, wheel

FILE = "six-1.16.0-py2.py3-none-any.whl"
PAGE = f'<a href="/files/{FILE}#sha256={sha256(wheel(FILE))}">{FILE}</a>'.encode()
LOGIN = "Basic " + base64.b64encode(b"ada:s3@cret").decode()


class Index:
    """A server with one wheel; `logins` are those it was shown, "" for a request with none."""

    def __init__(self) -> None:
        self.url = ""
        self.wants = LOGIN
        self.elsewhere = ""  # where it sends who asks for a file
        self.logins: list[str] = []

    def at(self, user: str) -> str:
        """Its address with a login."""
        return self.url.replace("//", f"//{user}@") + "/simple"


def served() -> tuple[Index, http.server.HTTPServer]:
    index = Index()

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown = self.headers.get("Authorization", "")
            index.logins.append(shown)
            is_file = self.path.startswith("/files/")
            body = wheel(FILE) if is_file else PAGE
            if index.wants and shown != index.wants:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic realm=index")
                body = b""
            elif is_file and index.elsewhere:
                self.send_response(302)
                self.send_header("Location", index.elsewhere + self.path)
                body = b""
            else:
                self.send_response(200)
            self.send_header("Content-Type", "application/x" if is_file else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return index, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    made, server = served()
    with serving(server) as made.url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", made.at("ada:s3%40cret"))
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        yield made


@pytest.fixture
def other() -> Iterator[Index]:
    """A server that wants no login."""
    made, server = served()
    made.wants = ""
    with serving(server) as made.url:
        yield made


def fetched(url: str, folder: Path) -> bytes:
    wanted = Exact(sha256(wheel(FILE)), (url,), FILE)
    Places(folder / "cache").into(wanted, folder / FILE)
    return (folder / FILE).read_bytes()


def test_a_wheel_is_fetched_with_the_login_of_its_index(index: Index, tmp_path: Path) -> None:
    locked = f"six==1.16.0 --hash=sha256:{sha256(wheel(FILE))}\n"
    (found,) = wheel_files.files(locked, python="3.11", wheel_platform="x86_64-manylinux_2_31")
    assert "s3" not in found.url
    assert fetched(found.url, tmp_path) == wheel(FILE)


def test_a_named_index_among_several_has_its_own_login(
    index: Index, other: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{other.url}/simple")
    monkeypatch.setenv("UV_INDEX", f"https://example.org/simple lab={index.at('ada:s3%40cret')}")
    assert fetched(f"{index.url}/files/{FILE}", tmp_path) == wheel(FILE)


def test_another_host_is_not_shown_the_login(index: Index, other: Index, tmp_path: Path) -> None:
    """Neither where a wheel lies there, nor where the index sends who asks for one."""
    assert fetched(f"{other.url}/files/{FILE}", tmp_path) == wheel(FILE)
    (tmp_path / FILE).unlink()
    index.elsewhere = other.url
    assert fetched(f"{index.url}/files/{FILE}", tmp_path) == wheel(FILE)
    assert index.logins == [LOGIN]
    assert other.logins == ["", ""]


def test_a_login_that_is_refused_is_said_without_its_password(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.at("ada:wr0ng"))
    with pytest.raises(MachineError, match="can't be fetched") as caught:
        fetched(f"{index.url}/files/{FILE}", tmp_path)
    assert "401" in caught.value.got
    assert "UV_DEFAULT_INDEX" in caught.value.hint
    assert "wr0ng" not in str(caught.value)
