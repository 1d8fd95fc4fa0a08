"""Fetches what a lock is made of: signed package indices and the hashes of wheels.

The only part of the generator that opens a connection. Nothing is believed before it is verified:
an InRelease by gpgv against pinned key fingerprints, an index by the SHA-256 in its InRelease.
Verified indices are kept in the cache by their hash, so a second lock fetches three small files.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from provision import mirrors
from provision.catalog import Archive, PlatformRow
from provision.errors import InputError, MachineError, UnsatisfiableError
from provision.openpgp import dearmor
from provision.packages import Indices, Package, Source, parse

Fetch = Callable[[str], bytes]

_TIMEOUT = 60
# Nothing is known of an answer before its signature: an endless one must not fill the memory.
_LARGEST = 256 << 20
# A slow index that is asked for the first time, by several uv at once.
_UV_TIMEOUT = 1800


class GoneError(MachineError):
    """The server answered, and has nothing there: not a matter of trying again."""


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """`$XDG_CACHE_HOME/provision`, by default `~/.cache/provision`."""
    environment = os.environ if environment is None else environment
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "provision"


def fetch(url: str) -> bytes:
    """The bytes at a URL, through the environment's proxy. MachineError says why not.

    GoneError where the server says that there is no such file.
    """
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310  catalog's URLs
            body = bytes(answer.read(_LARGEST + 1))
    except urllib.error.HTTPError as error:
        gone = error.code in (404, 410)
        raise (GoneError if gone else MachineError)(
            "there is no such file in the archive" if gone else "cannot fetch a package index",
            where=url,
            got=f"{error.code} {error.reason}",
            hint=f"{mirrors.option_for(url)} takes it from a mirror; an existing lock.yml needs "
            "none of this",
        ) from None
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise MachineError(
            "cannot fetch a package index",
            where=url,
            got=str(reason),
            hint="is the network there? http_proxy, https_proxy and SSL_CERT_FILE are honoured; "
            f"{mirrors.option_for(url)} takes it from a mirror; an existing lock.yml needs none of "
            "this",
        ) from None
    if len(body) > _LARGEST:
        raise MachineError(
            "this is larger than any package index",
            where=url,
            got=f"more than {_LARGEST >> 20} MiB",
            hint="a proxy or mirror answered with something else",
        )
    return body


def verify(in_release: bytes, archive: Archive, keys: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text that was signed, and the pinned fingerprints that signed it.

    The text is what gpgv says it verified, never the file around it. InputError for a signature
    that does not hold or is by no pinned key; MachineError without gpgv.
    """
    return verified(
        {"InRelease": in_release},
        keys,
        archive.signed_by,
        where=f"{archive.url} {archive.suite} InRelease",
        hint="a proxy or mirror answered with something else than Debian's file",
    )


def verified(
    files: Mapping[str, bytes],
    keys: Mapping[str, str],
    signed_by: Sequence[str],
    *,
    where: str,
    hint: str,
) -> tuple[str, list[str]]:
    """As `verify`, of an InRelease, or of a Release and its Release.gpg."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        (folder / "keys.gpg").write_bytes(b"".join(dearmor(keys[k]) for k in sorted(keys)))
        command = ["gpgv", "--status-fd", "1", "--keyring", str(folder / "keys.gpg")]
        if "InRelease" in files:
            signed_text = folder / "text"
            command += ["--output", str(signed_text), str(folder / "InRelease")]
        else:
            signed_text = folder / "Release"
            command += [str(folder / "Release.gpg"), str(signed_text)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT)
        except FileNotFoundError:
            raise MachineError(
                "gpgv is not here, so no index can be believed", hint="apt install gpgv"
            ) from None
        except subprocess.TimeoutExpired:
            raise MachineError(
                "gpgv did not end", where=where, got=f"nothing after {_TIMEOUT} s"
            ) from None
        status = done.stdout.decode(errors="replace")
        text = signed_text.read_text(encoding="utf-8") if signed_text.exists() else ""
    # VALIDSIG's last word is the fingerprint of the primary key (GnuPG doc/DETAILS). It comes with
    # an expired or revoked key too; GOODSIG does not, and apt on the hosts refuses such a key.
    valid = {
        line.split()[-1]
        for signature in status.split("[GNUPG:] NEWSIG")
        if "[GNUPG:] GOODSIG " in signature
        for line in signature.splitlines()
        if line.startswith("[GNUPG:] VALIDSIG ")
    }
    pinned = [key for key in signed_by if key in valid]
    if "[GNUPG:] BADSIG " in status or not pinned or not text:
        seen = re.findall(r"\[GNUPG:\] (\w*SIG|NO_PUBKEY|NODATA)\b(.*)", status)
        seen = [(word, rest) for word, rest in seen if word != "NEWSIG"]
        expired = "[GNUPG:] EXPKEYSIG " in status
        raise InputError(
            "the index's signature does not hold",
            where=where,
            got="; ".join(f"{word}{rest[:80]}" for word, rest in seen) or "no signature",
            expected=f"a good signature by {' or '.join(signed_by)}",
            hint="the key that signed it has expired" if expired else hint,
        )
    return text, pinned


# A copy of an archive as it was on one day, which its address names, and archives of releases that
# get no updates: what lies there has expired, and is what was asked for.
_SNAPSHOT = re.compile(
    r"/\d{8}T\d{6}Z(/|$)|^https?://(archive\.debian\.org|old-releases\.ubuntu\.com)/"
)
SNAPSHOTS = "a snapshot is known by the time in its address (.../20261121T000000Z)"


def is_snapshot(url: str) -> bool:
    """Is this the address of an archive that stands still on purpose?"""
    return bool(_SNAPSHOT.search(url))


def check_valid(text: str, *, where: str, hint: str) -> None:
    """InputError for a Release whose `Valid-Until` has passed.

    The signature of an old index holds for ever: without its date, whoever answers a plain HTTP
    request could keep a lock at packages with known holes. Debian's suites without updates have no
    such field.
    """
    until = release_field(text, "Valid-Until")
    try:
        expired = bool(until) and parsedate_to_datetime(until) < datetime.now(timezone.utc)
    except (ValueError, TypeError):
        expired = True
    if expired:
        raise InputError(
            "the index has expired",
            where=where,
            got=f"Valid-Until: {until}",
            expected="one that is still valid",
            hint=hint,
        )


def release_field(text: str, name: str) -> str:
    """One single-line field of a Release file."""
    found = re.search(rf"^{re.escape(name)}: *(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def checksums(text: str) -> dict[str, tuple[str, int]]:
    """Path -> (SHA-256, size) from a Release file; SHA-512 from one that has only these.

    NVIDIA's repository of the container toolkit is such a one
    (https://github.com/NVIDIA/libnvidia-container, stable/deb/amd64/InRelease).
    """
    blocks = (
        re.search(rf"^{name}:\n((?: .*\n?)+)", text, re.MULTILINE) for name in ("SHA256", "SHA512")
    )
    block = next(filter(None, blocks), None)
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
    gone: MutableSequence[Archive] | None = None,
) -> Indices:
    """Every package of the platform's archives, verified.

    A suite is asked for at its `url`, then at its `mirrors`, with the same pinned keys; the source
    names the one that answered. Where none has it any more it is an error, or an entry in `gone`.
    """
    packages: list[Package] = []
    sources = []
    for archive in platform.archives:
        try:
            found, source = _read_archive(platform, archive, keys, cache, get, progress)
        except GoneError:
            if gone is None:
                raise
            gone.append(archive)
            continue
        packages += found
        sources.append(source)
    return Indices(tuple(packages), tuple(sources))


def _read_archive(
    platform: PlatformRow,
    archive: Archive,
    keys: Mapping[str, str],
    cache: Path,
    get: Fetch,
    progress: Callable[[str], None],
) -> tuple[list[Package], Source]:
    """From the first place that answers. One that answers with a wrong signature is no detour."""
    failed: list[MachineError] = []
    places = [archive.url, *archive.mirrors]
    for url in places:
        try:
            return _read_suite(platform, archive, url, keys, cache, get, progress)
        except MachineError as error:
            if not error.where.startswith(url):
                raise  # this machine's own fault: no gpgv
            failed.append(error)
    if len(failed) == 1 and not isinstance(failed[0], GoneError):
        raise failed[0]
    # Gone is only what every place says is gone: one that can't be reached may have it.
    nowhere = all(isinstance(error, GoneError) for error in failed)
    raise (GoneError if nowhere else MachineError)(
        "the suite is gone" if nowhere else "no place has the suite",
        where=f"{platform.title}, {archive.suite}",
        got="; ".join(f"{error.where}: {error.got}" for error in failed),
        expected=" or ".join(places),
        hint=f"{HELP}; an existing lock.yml needs none of this",
    )


# What helps where the archive has moved on.
HELP = (
    "a mirror that keeps it, as `mirrors` in the platform's row of the catalog "
    "(snapshot.debian.org keeps all of Debian's)"
)


def _read_suite(
    platform: PlatformRow,
    archive: Archive,
    url: str,
    keys: Mapping[str, str],
    cache: Path,
    get: Fetch,
    progress: Callable[[str], None],
) -> tuple[list[Package], Source]:
    """One suite from one place."""
    packages: list[Package] = []
    base = f"{url}/dists/{archive.suite}"
    progress(f"{archive.label}: InRelease")
    raw = get(f"{base}/InRelease")
    text, pinned = verify(raw, archive.model_copy(update={"url": url}), keys)
    if not is_snapshot(url):
        check_valid(
            text,
            where=f"{base}/InRelease",
            hint=f"a mirror that no longer follows, or a proxy that keeps old files? {SNAPSHOTS}",
        )
    known = checksums(text)
    for component in archive.components:
        folder = f"{component}/binary-{platform.package_architecture}"
        path = listed(known, f"{folder}/Packages")
        if not path:
            if archive.partial:
                continue
            raise InputError(
                "the archive has no such index", where=base, got=f"{folder}/Packages.xz"
            )
        digest, _size = known[path]
        progress(f"{archive.label}: {component}")
        body = cached(f"{base}/{path}", digest, cache, get)
        packages += parse(unpacked(path, body), f"{archive.label}/{component}")
    if archive.partial and not packages:
        raise InputError(
            "the mirror has no package of the platform",
            where=base,
            expected=f"{' or '.join(archive.components)} for {platform.package_architecture}",
        )
    source = Source(
        url,
        archive.suite,
        tuple(archive.components),
        tuple(pinned),
        release_field(text, "Date"),
        hashlib.sha256(raw).hexdigest(),
    )
    return packages, source


def listed(known: Mapping[str, object], name: str) -> str:
    """The name under which a Release lists an index, packed as it may be; "" where it does not."""
    names = (f"{dot}{name}{end}" for end in (".xz", ".gz", "") for dot in ("", "./"))
    return next((one for one in names if one in known), "")


def unpacked(path: str, body: bytes) -> str:
    """An index as text. InputError for one that is not packed as its name says."""
    try:
        if path.endswith(".xz"):
            body = lzma.decompress(body)
        elif path.endswith(".gz"):
            body = gzip.decompress(body)
        return body.decode("utf-8")
    except (lzma.LZMAError, OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError("an index can't be read", where=path, got=str(error)) from None


def digest_like(body: bytes, digest: str) -> str:
    """The hash of a body by the algorithm of another one: SHA-256, or SHA-512 of 128 digits."""
    algorithm = (
        hashlib.sha512 if len(digest) == hashlib.sha512().digest_size * 2 else hashlib.sha256
    )
    return algorithm(body).hexdigest()


def cached(url: str, digest: str, cache: Path, get: Fetch) -> bytes:
    """The file of this hash, from the cache or the network; a wrong one is never kept."""
    file = cache / "indices" / digest
    try:
        body = file.read_bytes()
        if digest_like(body, digest) == digest:
            return body
    except OSError:
        pass
    body = get(url)
    found = digest_like(body, digest)
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
    wanted: Sequence[str],
    constraints: Sequence[str],
    *,
    python: str,
    wheel_platform: str,
    prefer: Mapping[str, str] | None = None,
) -> str:
    """Hash-locked requirements of `wanted` for a Python and a platform, made by uv.

    A version in `prefer` is kept where the index has it and nothing forbids it. Index, proxy and CA
    come from the environment, as with uv itself; the text names no index, so that hosts may use
    another one. UnsatisfiableError where no set of wheels fits, MachineError when the index cannot
    be reached.
    """
    # Without their hashes: uv would take those over unseen instead of asking the index for them.
    pins = [f"{name}=={version}" for name, version in sorted((prefer or {}).items())]
    return _compile(
        wanted, constraints, pins, ["--generate-hashes"], python=python, platform=wheel_platform
    )


def has_wheel(name: str, version: str, *, python: str, wheel_platform: str) -> bool:
    """Whether the index still has a wheel of this version for this Python and platform."""
    pin = f"{name}=={version}"
    try:
        _compile([pin], (), (), ["--no-deps"], python=python, platform=wheel_platform)
    except UnsatisfiableError:
        return False
    return True


def _compile(
    wanted: Sequence[str],
    constraints: Sequence[str],
    pins: Sequence[str],
    options: Sequence[str],
    *,
    python: str,
    platform: str,
) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, lines in (
            ("wanted.in", wanted),
            ("constraints.txt", constraints),
            ("locked.txt", pins),
        ):
            (folder / file).write_text("\n".join([*lines, ""]), encoding="utf-8")
        command = [_uv(), "pip", "compile", "--quiet", "--no-config", *options]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--only-binary", ":all:"]
        command += ["--python-version", python, "--python-platform", platform]
        # What the output file holds already is what uv would rather keep.
        command += ["--constraint", "constraints.txt", "--output-file", "locked.txt", "wanted.in"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=_UV_TIMEOUT,
            )
        except FileNotFoundError:
            raise MachineError("uv is not here", hint="pip install uv") from None
        except subprocess.TimeoutExpired:
            raise MachineError(
                "uv did not end",
                where=", ".join(wanted),
                got=f"nothing after {_UV_TIMEOUT // 60} minutes",
                hint="is the index there? UV_DEFAULT_INDEX and proxies are honoured",
            ) from None
        if not done.returncode:
            return (folder / "locked.txt").read_text(encoding="utf-8")
    words = " ".join(done.stderr.split())[:600]
    # uv exits 1 where there is no solution, 2 where it could not look for one.
    if done.returncode == 1 and "No solution found" in words:
        raise UnsatisfiableError(
            "the index has no set of wheels that fits",
            where=", ".join(wanted),
            got=words,
            expected=f"wheels for Python {python} on {platform}",
        )
    raise MachineError(
        "uv could not lock the wheels",
        where=", ".join(wanted),
        got=words,
        hint="is the index there? UV_DEFAULT_INDEX, proxies and SSL_CERT_FILE are honoured",
    )


def plain_indexes(environment: Mapping[str, str] | None = None) -> list[str]:
    """A warning for each index of wheels, of uv's settings, that anybody on the way can answer.

    The hashes that it gives are believed as they come. Nothing of an address but its host is told,
    for it may carry a password.
    """
    environment = os.environ if environment is None else environment
    words = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
    found = []
    for word in words:
        for url in re.split(r"[\s,]+", environment.get(word, "")):
            parts = urlsplit(re.sub(r"^[\w-]+=", "", url))  # an index may have a name
            if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
                found.append(
                    f"{word} names {parts.hostname} over plain HTTP: whoever is in between chooses "
                    "the wheels whose hashes are locked; an https:// address prevents that"
                )
    return found


def _uv() -> str:
    """uv of this Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else "uv"
