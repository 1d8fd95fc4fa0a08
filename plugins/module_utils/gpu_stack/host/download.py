"""Downloads one file, through a proxy and with a CA bundle where they are named.

Addresses and proxies may hold a password, so they appear in no command line, no message and no
environment that another program gets.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import os
import signal
import urllib.error
import urllib.parse
import urllib.request

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

SILENCE = 60.0  # seconds without a byte
LONGEST = 14400.0  # seconds for gigabytes over a slow line
BLOCK = 1 << 20
# Bytes of an archive whose size is not known: more than any of NVIDIA's has.
ARCHIVE = 8 << 30
# Bytes of the disk that stay free, whatever a server sends.
RESERVE = 256 << 20


class DownloadError(Exception):
    """The file could not be downloaded. status: HTTP's, or None where no server gave one."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class LimitError(DownloadError):
    """The file is longer than is taken; it would be so the next time."""


@contextlib.contextmanager
def surroundings(proxy: str | None, ca_bundle: str | None) -> Iterator[None]:
    """Context in which this process fetches through a proxy and trusts a CA bundle."""
    settings = dict.fromkeys(("http_proxy", "https_proxy"), proxy) if proxy else {}
    if ca_bundle:
        settings["SSL_CERT_FILE"] = ca_bundle
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def to_file(
    url: str, path: str, limit: int, longest: float = LONGEST, silence: float = SILENCE
) -> None:
    """Downloads `url`, of at most `limit` bytes, to a file that is not there yet.

    Raises DownloadError; LimitError also where RESERVE of the disk would not stay free.
    """
    with _failing(), _within(longest):
        blocks = _blocks(url, silence)
        first = next(blocks, b"")  # an address that does not answer leaves no file
        with open(path, "xb") as target:
            for block in _limited(itertools.chain([first], blocks), limit, target.fileno()):
                target.write(block)


def to_memory(url: str, limit: int, longest: float, silence: float) -> bytes:
    """The content of what is at `url`; of one that is longer than `limit` bytes, somewhat more.

    Raises DownloadError.
    """
    data = b""
    with _failing(), _within(longest):
        for block in _blocks(url, silence):
            data += block
            if len(data) > limit:
                break
    return data


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Context whose errors are DownloadErrors."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise DownloadError(str(error), error.code) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(str(error)) from error


@contextlib.contextmanager
def _within(longest: float) -> Iterator[None]:
    """Context that raises DownloadError after `longest` seconds.

    By an alarm: a socket's time-out ends no name server, greeting or header that drips. Only in a
    process's main thread.
    """

    def end(_number: int, _frame: Any) -> None:
        raise DownloadError(f"not whole after {longest:g} s")

    before = signal.signal(signal.SIGALRM, end)
    former = signal.setitimer(signal.ITIMER_REAL, longest)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *former)
        signal.signal(signal.SIGALRM, before)


def _limited(blocks: Iterable[bytes], limit: int, handle: int) -> Iterator[bytes]:
    """The blocks for an open file; LimitError before one that its limit or disk has no room for."""
    disk = os.fstatvfs(handle)
    # What is as small as a key is no matter of the disk.
    room = max(disk.f_bavail * disk.f_frsize - RESERVE, BLOCK)
    size = 0
    for block in blocks:
        size += len(block)
        if size > limit:
            raise LimitError(f"longer than {limit >> 20} MiB")
        if size > room:
            raise LimitError(
                f"the disk has no room for more than {room >> 20} MiB of it:"
                f" {RESERVE >> 20} MiB stay free"
            )
        yield block


def _blocks(url: str, silence: float) -> Iterator[bytes]:
    """What is at `url`, in blocks as they come; OSError where it can't be had."""
    parts = urllib.parse.urlsplit(url)
    login, _mark, host = parts.netloc.rpartition("@")
    # Of any scheme: the addresses are the inventory's own.
    request = urllib.request.Request(parts._replace(netloc=host).geturl())  # noqa: S310
    if login:
        words = urllib.parse.unquote(login).encode("utf-8")
        # For this address alone, not for one that it leads to.
        request.add_unredirected_header(
            "Authorization", "Basic " + base64.b64encode(words).decode("ascii")
        )
    with urllib.request.urlopen(request, timeout=silence) as stream:  # noqa: S310
        # read1: of a server that drips, read() would wait for a whole block.
        yield from iter(lambda: stream.read1(BLOCK), b"")
