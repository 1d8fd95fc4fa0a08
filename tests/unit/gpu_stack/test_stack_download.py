"""A download on a host ends: in its time, and before it fills a disk."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_stack.components.cuda import installer
from gpu_stack.components.cudnn import fetch
from gpu_stack.host import download, repository_key
from gpu_stack.host.refusal import RefusalError

from tests.served import Quiet, serving

MIB = 1 << 20
SHA256 = "a" * 64
# What a server has said before it sends a byte now and then: within the answer's first line, its
# headers, its body, or an answer to a TLS greeting.
DRIPPING = {
    "line": ("http", b"HTTP/1.0 "),
    "header": ("http", b"HTTP/1.0 200 OK\r\nX: "),
    "body": ("http", b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n"),
    "greeting": ("https", b"\x16\x03\x03\x40\x00"),
}


@pytest.fixture(params=DRIPPING)
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that sends a byte now and then, for five seconds."""
    scheme, begin = DRIPPING[request.param]
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def drip() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(begin)
                for _time in range(100):
                    connection.sendall(b"x")
                    if ended.wait(0.05):
                        break

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{server.getsockname()[1]}/file"
        finally:
            ended.set()
            thread.join()


def into_file(url: str, folder: Path) -> None:
    download.to_file(url, str(folder / "file"), MIB, longest=0.5)


def into_memory(url: str, _folder: Path) -> None:
    download.to_memory(url, MIB, longest=0.5, silence=60)


@pytest.mark.parametrize("fetched", [into_file, into_memory])
def test_a_server_that_drips_is_left_whatever_it_drips(
    dripping: str, tmp_path: Path, fetched: Callable[[str, Path], None]
) -> None:
    """Each byte was progress: of an answer's head there was no end."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(download.DownloadError, match=r"^not whole after 0\.5 s$"):
        fetched(dripping, tmp_path)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


# how much


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def site(asked: list[str]) -> Iterator[str]:
    """Two mebibytes without a length, at every path."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # it is not read to its end
                self.wfile.write(bytes(2 * MIB))

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def test_no_more_than_the_limit_is_written(site: str, tmp_path: Path) -> None:
    download.to_file(site, str(tmp_path / "whole"), 2 * MIB)
    assert (tmp_path / "whole").stat().st_size == 2 * MIB
    with pytest.raises(download.LimitError, match=r"^longer than 1 MiB$"):
        download.to_file(site, str(tmp_path / "file"), MIB)
    assert (tmp_path / "file").stat().st_size <= MIB


def test_a_download_leaves_something_of_the_disk(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk(_handle: int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=free // 512, f_frsize=512)

    monkeypatch.setattr(os, "fstatvfs", disk)
    free = download.RESERVE + 2 * MIB
    download.to_file(site, str(tmp_path / "whole"), 2 * MIB)
    free -= 512
    with pytest.raises(download.LimitError, match=r"^the disk has no room .* 256 MiB stay free$"):
        download.to_file(site, str(tmp_path / "file"), 2 * MIB)


def test_a_small_file_is_fetched_to_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("BEGIN")
    disk = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _handle: disk)
    download.to_file(f"file://{tmp_path}/key", str(tmp_path / "file"), MIB)
    assert (tmp_path / "file").read_text() == "BEGIN"


def test_a_key_is_of_a_mebibyte_at_most(site: str) -> None:
    words = repository_key.Words(site, "NVIDIA", "", "lock again", "")
    holder = repository_key.Holder("", "", site, "")
    with pytest.raises(RefusalError, match=r"could not be fetched from .*: longer than 1 MiB"):
        repository_key.take(holder, ["A" * 40], words)


def test_an_installer_that_is_too_long_is_not_asked_for_again(
    site: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert download.ARCHIVE == 8 << 30
    monkeypatch.setattr(download, "ARCHIVE", MIB)
    url = f"{site}/cuda.deb"
    wished = installer.Installer(url, SHA256, str(tmp_path), str(tmp_path / "repository"), "", "")
    with pytest.raises(RefusalError, match="could not be fetched: longer than 1 MiB"):
        installer.present(wished)
    assert asked == ["/cuda.deb"]
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_is_too_long_is_fetched_from_the_next_address(
    site: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "DOWNLOADS", str(tmp_path))
    monkeypatch.setattr(download, "ARCHIVE", MIB)
    with pytest.raises(fetch.NowhereError, match=r"/one: longer than .*/two: longer than 1 MiB"):
        fetch.first([f"{site}/one", f"{site}/two"], lambda _archive: None)
    assert asked == ["/one", "/two"]
    assert list(tmp_path.iterdir()) == []
