"""Downloads one file, through a proxy and with a CA bundle where they are named.

Addresses and proxies may hold a password, so they appear in no command line, no message and no
environment that another program gets.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE = 60.0  # seconds without a byte
LONGEST = 14400.0  # seconds for gigabytes over a slow line
BLOCK = 1 << 20


class DownloadError(Exception):
    """The file could not be downloaded. status: HTTP's, or None where no server gave one."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


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


def to_file(url: str, path: str, longest: float = LONGEST, silence: float = SILENCE) -> None:
    """Downloads `url` to a file that is not there yet; raises DownloadError."""
    with _failing():
        blocks = _blocks(url, longest, silence)
        first = next(blocks, b"")  # an address that does not answer leaves no file
        with open(path, "xb") as target:
            target.write(first)
            for block in blocks:
                target.write(block)


def to_memory(url: str, limit: int, longest: float, silence: float) -> bytes:
    """The content of what is at `url`; of one that is longer than `limit` bytes, somewhat more.

    Raises DownloadError.
    """
    data = b""
    with _failing():
        for block in _blocks(url, longest, silence):
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


def _blocks(url: str, longest: float, silence: float) -> Iterator[bytes]:
    """What is at `url`, in blocks as they come; OSError where it is not whole in time."""
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
    until = time.monotonic() + longest
    with urllib.request.urlopen(request, timeout=silence) as stream:  # noqa: S310
        # read1: of a server that drips, read() would wait for a whole block.
        for block in iter(lambda: stream.read1(BLOCK), b""):
            yield block
            if time.monotonic() > until:
                raise OSError(f"not whole after {longest:g} s")
