"""A file of which nobody knows the hash is taken from nobody who could be anybody."""

from __future__ import annotations

import hashlib
import http.server
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.errors import InputError, MachineError
from provision.upstream import download
from tests.served import Quiet, serving
from tests.unit.generator.signed_repository import Server, served

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


@pytest.fixture
def server(proxy: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("http_proxy")
    with served() as archive:
        archive.files["/x.run"] = FILE
        yield archive


@pytest.mark.parametrize(("step", "name"), [("open", ".x.run.part"), ("write_text", ".x.run.mark")])
def test_two_files_are_not_joined_where_a_run_was_ended_in_between(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, name: str
) -> None:
    """By SIGKILL: once a new file's mark stood beside the old one's beginning."""
    url = f"{server.url}/x.run"
    server.breaks = [8, 0, 0, 0, 0]
    with pytest.raises(MachineError, match="breaks off each time"):
        download.file_of(url, cache=tmp_path)
    server.breaks, server.files["/x.run"] = [], b"another file"
    done = getattr(Path, step)

    def ended(path: Path, *given: str, **named: str) -> object:
        if path.name == name:
            raise KeyboardInterrupt
        return done(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, ended)
        with pytest.raises(KeyboardInterrupt):
            download.file_of(url, cache=tmp_path)
    assert download.file_of(url, cache=tmp_path)[0].read_bytes() == b"another file"


def test_a_beginning_that_a_power_failure_altered_is_fetched_once_more(
    server: Server, tmp_path: Path
) -> None:
    server.breaks = [8, 0, 0, 0, 0]
    given = {"sha256": hashlib.sha256(FILE).hexdigest()}
    with pytest.raises(MachineError, match="breaks off each time"):
        download.into(f"{server.url}/x.run", tmp_path / "x.run", **given)
    server.breaks = []
    download.begun(tmp_path / "x.run").write_bytes(bytes(8))
    download.into(f"{server.url}/x.run", tmp_path / "x.run", **given)
    assert (tmp_path / "x.run").read_bytes() == FILE
    assert [path.name for path in tmp_path.iterdir()] == ["x.run"]


def test_a_full_disk_leaves_nothing_of_an_index_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _body: bytes) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    download.keep(b"index", "0" * 64, tmp_path)
    assert list((tmp_path / "indices").iterdir()) == []
