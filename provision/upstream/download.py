"""Fetches files from the network, and caches them once they are verified.

Indices are small and cached by their hash, so that a second lock fetches three small files.
NVIDIA's installers are large: partial downloads are resumed, only complete ones are kept. A local
installer of CUDA has two gigabytes; without resuming, a slow connection would never finish one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from provision.errors import InputError, MachineError
from provision.upstream import keys, mirrors, transfer, wheels

Fetch = Callable[[str], bytes]

# In bytes. An answer is not trusted before its signature: an endless one must not fill the memory.
LARGEST = 256 << 20


class GoneError(MachineError):
    """The server answered that the file does not exist: trying again is no use."""


def fetch(url: str) -> bytes:
    """The bytes at a URL, through the environment's proxy.

    MachineError where it can't be fetched, GoneError where the server has no such file.
    """
    body = bytearray()
    try:
        with transfer.opened(url) as answer:
            for chunk in answer.chunks():
                body += chunk
                if len(body) > LARGEST:
                    break
            else:
                if answer.length is not None and len(body) < answer.length:
                    whole = f"{len(body)} of {answer.length} bytes"
                    raise ConnectionError(f"it breaks off after {whole}")
    except urllib.error.HTTPError as error:
        gone = error.code in (404, 410)
        raise (GoneError if gone else MachineError)(
            "there is no such file in the archive" if gone else "cannot fetch a package index",
            where=url,
            got=f"{error.code} {error.reason}",
            hint=f"{mirrors.option_for(url)} takes it from a mirror; an existing lock.yml needs "
            "none of this",
        ) from None
    # ValueError: no address at all.
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise MachineError(
            "cannot fetch a package index",
            where=url,
            got=str(reason),
            hint="is the network there? http_proxy, https_proxy and SSL_CERT_FILE are honoured; "
            f"{mirrors.option_for(url)} takes it from a mirror; an existing lock.yml needs none of "
            "this",
        ) from None
    if len(body) > LARGEST:
        raise MachineError(
            "this is larger than any package index",
            where=url,
            got=f"more than {LARGEST >> 20} MiB",
            hint="a proxy or mirror answered with something else",
        )
    return bytes(body)


def digest_like(body: bytes, digest: str) -> str:
    """The body's hash by the algorithm of `digest`: SHA-512 for 128 digits, else SHA-256."""
    algorithm = (
        hashlib.sha512 if len(digest) == hashlib.sha512().digest_size * 2 else hashlib.sha256
    )
    return algorithm(body).hexdigest()


def cached(url: str, digest: str, cache: Path, get: Fetch) -> bytes:
    """The file with this hash, from the cache or the network. InputError for another hash."""
    file = cache / "indices" / digest
    try:
        body = file.read_bytes()
        if digest_like(body, digest) == digest:
            return body
    except OSError:
        pass
    body = get(url)
    actual = digest_like(body, digest)
    if actual != digest:
        raise InputError(
            "checksum mismatch: not the index that was signed",
            where=url,
            got=f"SHA-256 {actual}, {len(body)} bytes",
            expected=f"SHA-256 {digest}",
            hint="a mirror in the middle of its update: try again in some minutes",
        )
    keep(body, digest, cache)
    return body


def keep(body: bytes, digest: str, cache: Path) -> None:
    """Keeps the bytes with this hash in the cache, where `cached` finds them."""
    file = cache / "indices" / digest
    temporary = file.with_name(f".{digest}.{os.getpid()}")
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(body)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


_CHUNK = 1 << 20
_TRIES = 5


def file_of(
    url: str,
    *,
    cache: Path,
    sha256: str = "",
    begins: bytes = b"",
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Path, str]:
    """(the file at a URL, its SHA-256), from the cache or the network.

    Without a known `sha256` it is fetched by HTTPS alone, for hosts will trust the returned hash.
    The file must begin with `begins`, so that a login page is not taken for a package. InputError
    for a file with another hash or beginning, MachineError where it can't be fetched.
    """
    if not sha256:
        _check_secure(url, url)
    file = place(url, cache)
    folder = file.parent
    actual = _kept(file, sha256)
    if actual:
        return file, actual
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(file, progress):
            # Another run may have completed it meanwhile.
            actual = _kept(file, sha256) or _complete(url, file, begins, sha256, progress)
    except OSError as error:
        raise MachineError.of(
            error, "a download cannot be kept", folder, "XDG_CACHE_HOME says where the cache is"
        ) from None
    return file, actual


def _kept(file: Path, sha256: str) -> str:
    """The hash of a file of the cache; "" without the file, or where its hash is not `sha256`."""
    actual = digest(file) if file.exists() else ""
    return actual if sha256 in ("", actual) else ""


@contextlib.contextmanager
def _alone(file: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Waits until no other run completes the file: two would write into one begun file."""
    with begun(file).with_suffix(".lock").open("ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{file.name}: another run downloads it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        yield


def place(url: str, cache: Path) -> Path:
    """Where the cache keeps the file at a URL."""
    folder = cache / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:16]
    return folder / Path(urlsplit(url).path).name


def into(url: str, path: Path, *, sha256: str) -> None:
    """Downloads the file with this hash to `path`, whole or not at all, and resumes it.

    InputError for another file, MachineError where it can't be fetched.
    """
    _complete(url, path, b"", sha256, lambda _: None)


def begun(path: Path) -> Path:
    """Where a file lies until it is whole."""
    return path.with_name(f".{path.name}.part")


def _mark(part: Path) -> Path:
    """The ETag or date of the file that was begun, so that no two files are joined."""
    return part.with_suffix(".mark")


def is_begun(name: str) -> bool:
    """Whether a file has the name of a begun one, or of what its download is continued by."""
    return name.startswith(".") and name.endswith((".part", ".mark"))


def digest(file: Path) -> str:
    """SHA-256 of a file of any size."""
    sha = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def _complete(
    url: str, file: Path, begins: bytes, sha256: str, progress: Callable[[str], None]
) -> str:
    """Downloads a file, whole or not at all, and resumes it; returns its SHA-256.

    What was resumed and has another hash is fetched once more: after a power failure the beginning
    may be anything.
    """
    part = begun(file)
    resumed = _mark(part).exists()
    while True:
        _fetch(url, part, file.name, progress, secure=not sha256)
        actual = digest(part)
        if resumed and sha256 not in ("", actual):
            part.unlink()
            resumed = False
            continue
        _check(part, url, begins, sha256, actual)
        part.replace(file)
        return actual


class _SecureRedirections(urllib.request.HTTPRedirectHandler):
    """Refuses every redirection that leaves HTTPS."""

    def redirect_request(self, req: urllib.request.Request, *args: Any) -> Any:
        """The base class's request for the new address, the last of `args`."""
        _check_secure(args[-1], req.full_url)
        return super().redirect_request(req, *args)


def _check_secure(url: str, requested: str) -> None:
    """InputError for an address that is neither HTTPS nor this machine's own."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return
    raise InputError(
        "a file whose hash is not known yet can't be taken over plain HTTP",
        where=requested,
        got=f"a redirection to {url}" if url != requested else url,
        expected="https://, or the file's hash (driver_sha256 in gpu_stack for a driver's .run)",
        hint="whoever is in between could send another file, and the lock would have hosts run it",
    )


def _check(part: Path, url: str, begins: bytes, sha256: str, actual: str) -> None:
    """InputError for a file with another beginning or hash, which is removed."""
    with part.open("rb") as stream:
        head = stream.read(max(len(begins), 256))
    if begins and not head.startswith(begins):
        part.unlink()
        page = keys.is_page(head)
        raise InputError(
            "the download is not the requested file",
            where=url,
            got=keys.called(head),
            expected=f"a file that begins with {begins.decode(errors='replace')!r}",
            hint="a login page or a proxy answered; a mirror of yours: --nvidia-mirror URL"
            if page
            else "is this the file's own address?",
        )
    if sha256 and actual != sha256:
        part.unlink()
        raise InputError(
            "checksum mismatch",
            where=url,
            got=f"SHA-256 {actual}",
            expected=f"SHA-256 {sha256}",
            hint="nothing of it was kept; a mirror or proxy in between?",
        )


def _fetch(
    url: str, part: Path, name: str, progress: Callable[[str], None], *, secure: bool
) -> None:
    """Downloads to `part`, resuming after broken connections."""
    mark = _mark(part)
    for left in reversed(range(_TRIES)):
        try:
            if _go_on(url, part, mark, name, progress, secure=secure):
                mark.unlink(missing_ok=True)
                return
        except urllib.error.HTTPError as error:
            gone = error.code in (404, 410)
            if error.code == 416:  # longer than the file: not the one that was begun
                part.unlink(missing_ok=True)
                continue
            raise (GoneError if gone else MachineError)(
                "there is no such file" if gone else "cannot fetch a file",
                where=url,
                got=f"{error.code} {error.reason}",
                hint="`--nvidia-mirror URL` takes it from a mirror",
            ) from None
        except (
            *(urllib.error.URLError, ConnectionError, TimeoutError),
            *(http.client.HTTPException, ValueError),  # ValueError: no address at all
        ) as error:
            if not left:
                raise MachineError(
                    "cannot fetch a file",
                    where=url,
                    got=str(getattr(error, "reason", None) or error),
                    hint="what came is kept and resumed the next time; http_proxy, "
                    "https_proxy and SSL_CERT_FILE are honoured; --nvidia-mirror URL takes it from "
                    "a mirror",
                ) from None
    raise MachineError(
        "a file breaks off each time",
        where=url,
        got=f"{part.stat().st_size} bytes at last",
        hint="`--nvidia-mirror URL` takes it from a mirror",
    )


def _go_on(
    url: str,
    part: Path,
    mark: Path,
    name: str,
    progress: Callable[[str], None],
    *,
    secure: bool,
) -> bool:
    """Continues the download of `part`; whether it is complete now.

    With `secure` no redirection leaves HTTPS.
    """
    request = urllib.request.Request(url)  # noqa: S310  the catalog's URLs
    if login := wheels.authorization(url):
        request.add_unredirected_header("Authorization", login)  # for this host alone
    received = part.stat().st_size if part.exists() and mark.exists() else 0
    if received:
        request.add_header("Range", f"bytes={received}-")
        request.add_header("If-Range", mark.read_text(encoding="utf-8"))
    with transfer.opened(request, *([_SecureRedirections] if secure else [])) as answer:
        if answer.status != 206:
            received = 0
        total = received + answer.length if answer.length is not None else 0
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        # Emptied before it is marked: what ends here must not leave old bytes with a new mark.
        with part.open("ab" if received else "wb") as stream:
            if tag and not tag.startswith("W/"):
                mark.write_text(tag, encoding="utf-8")
            else:
                mark.unlink(missing_ok=True)
            for chunk in answer.chunks():
                stream.write(chunk)
                received += len(chunk)
                progress(f"{name}: {_so_far(received, total)}")
            stream.flush()
            os.fsync(stream.fileno())
    return not total or received == total


def _so_far(received: int, total: int) -> str:
    megabytes = f"{received / 1e6:.0f} MB"
    return f"{megabytes} of {total / 1e6:.0f} MB" if total else megabytes
