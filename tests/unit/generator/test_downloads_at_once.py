"""Two runs that download one file into one cache do not write into one another's beginning."""

from __future__ import annotations

import hashlib
import http.server
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from provision.upstream import download
from tests.served import Quiet, serving

FILE = bytes(range(1, 256)) * 4096
# How much of it the first and the second answer begin with.
BEGINNINGS = (len(FILE) // 2, 10)
# In seconds, until a test fails that waits for something.
PATIENCE = 20


class Pauses(Quiet, http.server.BaseHTTPRequestHandler):
    """Sends the beginning of the file, and the rest once `rest` of this request is set."""

    rest: tuple[Event, ...] = ()
    asked = 0

    def do_GET(self) -> None:
        rest, beginning = self.rest[Pauses.asked], BEGINNINGS[Pauses.asked]
        Pauses.asked += 1
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(FILE)))
        self.end_headers()
        self.wfile.write(FILE[:beginning])
        rest.wait(PATIENCE)
        self.wfile.write(FILE[beginning:])


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setattr(Pauses, "rest", (Event(), Event()))
    monkeypatch.setattr(Pauses, "asked", 0)
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pauses)) as address:
        yield f"{address}/x.run"


def test_a_second_run_waits_for_the_first_ones_download_and_takes_it(
    url: str, tmp_path: Path
) -> None:
    """It once emptied what the first was writing: a file with a hole was hashed and locked."""
    begun, heard = Event(), Event()
    words: list[str] = []

    def hears(text: str) -> None:
        words.append(text)
        heard.set()

    def run(progress: Event | None) -> Future[tuple[Path, str]]:
        return pool.submit(
            download.file_of,
            url,
            cache=tmp_path,
            progress=hears if progress is None else lambda _: progress.set(),
        )

    with ThreadPoolExecutor(2) as pool:
        first = run(begun)
        assert begun.wait(PATIENCE)
        second = run(None)
        assert heard.wait(PATIENCE)
        Pauses.rest[0].set()
        file, sha256 = first.result(PATIENCE)
        Pauses.rest[1].set()
        assert (file.read_bytes() == FILE, sha256) == (True, hashlib.sha256(FILE).hexdigest())
        assert second.result(PATIENCE) == (file, sha256)
    assert words == ["x.run: another run downloads it; waiting"]
    assert Pauses.asked == 1
