"""Fetches what a lock is made of: signed package indices and the hashes of wheels.

The only part of the generator that opens a connection. Nothing is believed before it is verified:
an InRelease by gpgv against pinned key fingerprints, an index by the SHA-256 in its InRelease.
Verified indices are kept in the cache by their hash, so a second lock fetches three small files.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from provision.catalog import Archive, PlatformRow
from provision.errors import InputError, MachineError
from provision.packages import Indices, Package, Source, parse

Fetch = Callable[[str], bytes]

_TIMEOUT = 60


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """`$XDG_CACHE_HOME/provision`, by default `~/.cache/provision`."""
    environment = os.environ if environment is None else environment
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "provision"


def fetch(url: str) -> bytes:
    """The bytes at a URL, through the environment's proxy. MachineError says why not."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310  catalog's URLs
            return bytes(answer.read())
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise MachineError(
            "cannot fetch a package index",
            where=url,
            got=str(reason),
            hint="is the network there? http_proxy and https_proxy are honoured; "
            "an existing lock.yml needs none of this",
        ) from None


def dearmor(text: str) -> bytes:
    """An ASCII-armored public key -> the binary form that gpgv reads."""
    body = re.search(
        r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[^\n]+\n)*?\n(.*?)(?:\n=[^\n]+)?\n"
        r"-----END PGP PUBLIC KEY BLOCK-----",
        text,
        re.DOTALL,
    )
    if body is None:
        raise InputError("not an armored public key", got=text[:40])
    return base64.b64decode(body.group(1))


def verify(in_release: bytes, archive: Archive, keys: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text that was signed, and the pinned fingerprints that signed it.

    The text is what gpgv says it verified, never the file around it. InputError for a signature
    that does not hold or is by no pinned key; MachineError without gpgv.
    """
    where = f"{archive.url} {archive.suite} InRelease"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "InRelease").write_bytes(in_release)
        (folder / "keys.gpg").write_bytes(b"".join(dearmor(keys[k]) for k in sorted(keys)))
        command = ["gpgv", "--status-fd", "1", "--keyring", str(folder / "keys.gpg")]
        command += ["--output", str(folder / "text"), str(folder / "InRelease")]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            raise MachineError(
                "gpgv is not here, so no index can be believed", hint="apt install gpgv"
            ) from None
        status = done.stdout.decode(errors="replace")
        signed_text = folder / "text"
        text = signed_text.read_text(encoding="utf-8") if signed_text.exists() else ""
    # VALIDSIG's last word is the fingerprint of the primary key (GnuPG doc/DETAILS).
    valid = {
        line.split()[-1] for line in status.splitlines() if line.startswith("[GNUPG:] VALIDSIG ")
    }
    pinned = [key for key in archive.signed_by if key in valid]
    if "[GNUPG:] BADSIG " in status or not pinned or not text:
        seen = re.findall(r"\[GNUPG:\] (\w*SIG|NO_PUBKEY|NODATA|EXPKEYSIG)\b(.*)", status)
        raise InputError(
            "the index's signature does not hold",
            where=where,
            got="; ".join(f"{word}{rest[:80]}" for word, rest in seen) or "no signature",
            expected=f"a good signature by {' or '.join(archive.signed_by)}",
            hint="a proxy or mirror answered with something else than Debian's file",
        )
    return text, pinned


def release_field(text: str, name: str) -> str:
    """One single-line field of a Release file."""
    found = re.search(rf"^{re.escape(name)}: *(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def checksums(text: str) -> dict[str, tuple[str, int]]:
    """Path -> (SHA-256, size) from a Release file."""
    block = re.search(r"^SHA256:\n((?: .*\n?)+)", text, re.MULTILINE)
    found = {}
    for line in (block.group(1) if block else "").splitlines():
        digest, size, path = line.split()
        found[path] = (digest, int(size))
    return found


def read(
    platform: PlatformRow,
    keys: Mapping[str, str],
    *,
    cache: Path,
    get: Fetch = fetch,
    progress: Callable[[str], None] = lambda _: None,
) -> Indices:
    """Every package of the platform's archives, verified."""
    packages: list[Package] = []
    sources = []
    for archive in platform.archives:
        base = f"{archive.url}/dists/{archive.suite}"
        progress(f"{archive.label}: InRelease")
        raw = get(f"{base}/InRelease")
        text, pinned = verify(raw, archive, keys)
        known = checksums(text)
        for component in archive.components:
            path = f"{component}/binary-{platform.package_architecture}/Packages.xz"
            if path not in known:
                raise InputError("the archive has no such index", where=base, got=path)
            digest, _size = known[path]
            progress(f"{archive.label}: {component}")
            body = _cached(f"{base}/{path}", digest, cache, get)
            packages += parse(lzma.decompress(body).decode("utf-8"), f"{archive.label}/{component}")
        sources.append(
            Source(
                archive.url,
                archive.suite,
                tuple(archive.components),
                tuple(pinned),
                release_field(text, "Date"),
                hashlib.sha256(raw).hexdigest(),
            )
        )
    return Indices(tuple(packages), tuple(sources))


def _cached(url: str, digest: str, cache: Path, get: Fetch) -> bytes:
    """The file of this SHA-256, from the cache or the network; a wrong one is never kept."""
    file = cache / "indices" / digest
    try:
        body = file.read_bytes()
        if hashlib.sha256(body).hexdigest() == digest:
            return body
    except OSError:
        pass
    body = get(url)
    found = hashlib.sha256(body).hexdigest()
    if found != digest:
        raise InputError(
            "an index is not the one that was signed",
            where=url,
            got=f"SHA-256 {found}, {len(body)} bytes",
            expected=f"SHA-256 {digest}",
            hint="a mirror in the middle of its update: try again in some minutes",
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{digest}.{os.getpid()}")
        temporary.write_bytes(body)
        temporary.replace(file)
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else
    return body


def requirements(
    wanted: Sequence[str], constraints: Sequence[str], *, python: str, wheel_platform: str
) -> str:
    """Hash-locked requirements of `wanted` for a Python and a platform, made by uv.

    Index, proxy and CA come from the environment, as with uv itself; the text names no index, so
    that hosts may use another one. MachineError when the index cannot be reached.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wanted.in").write_text("\n".join([*wanted, ""]), encoding="utf-8")
        (folder / "constraints.txt").write_text("\n".join([*constraints, ""]), encoding="utf-8")
        command = [_uv(), "pip", "compile", "--quiet", "--no-config", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--only-binary", ":all:"]
        command += ["--python-version", python, "--python-platform", wheel_platform]
        command += ["--constraint", "constraints.txt", "wanted.in"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise MachineError("uv is not here", hint="pip install uv") from None
    if done.returncode:
        words = " ".join(done.stderr.split())
        raise MachineError(
            "uv could not lock the wheels",
            where=", ".join(wanted),
            got=words[:600],
            hint="is the index there? UV_DEFAULT_INDEX, proxies and SSL_CERT_FILE are honoured",
        )
    return done.stdout


def _uv() -> str:
    """uv of this Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else "uv"
