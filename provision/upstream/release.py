"""Release files: their signatures, their validity, and the checksums of indices.

Everything is verified before it is used, by gpgv against pinned key fingerprints.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path

from debian.deb822 import Release

from provision.catalog.rows import Archive
from provision.errors import InputError, MachineError
from provision.upstream.keys import dearmor

# In bytes: Debian's main and Ubuntu's universe have less than 100 MB. Some kilobytes can unpack to
# more than the memory has.
_LARGEST = 1 << 29
# Seconds that gpgv may take.
_TIMEOUT = 60


def verify(in_release: bytes, archive: Archive, keys: Mapping[str, str]) -> tuple[str, list[str]]:
    """(the signed text of an InRelease, the pinned fingerprints that signed it).

    The text is gpgv's output, never the file around it. InputError for a bad signature or one by no
    pinned key; MachineError without gpgv.
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
    """As `verify`, for an InRelease, or for a Release and its Release.gpg."""
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
                "gpgv is not installed, and no index can be verified", hint="apt install gpgv"
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
        lines = re.findall(r"\[GNUPG:\] (\w*SIG|NO_PUBKEY|NODATA)\b(.*)", status)
        lines = [(keyword, details) for keyword, details in lines if keyword != "NEWSIG"]
        expired = "[GNUPG:] EXPKEYSIG " in status
        raise InputError(
            "the index's signature does not hold",
            where=where,
            got="; ".join(f"{keyword}{details[:80]}" for keyword, details in lines)
            or "no signature",
            expected=f"a good signature by {' or '.join(signed_by)}",
            hint="the key that signed it has expired" if expired else hint,
        )
    return text, pinned


# Archives whose indices have expired on purpose: copies of one day, which their address names, and
# archives of releases that get no updates.
_SNAPSHOT = re.compile(
    r"/\d{8}T\d{6}Z(/|$)|^https?://(archive\.debian\.org|old-releases\.ubuntu\.com)/"
)
SNAPSHOTS = "a snapshot is known by the time in its address (.../20261121T000000Z)"


def is_snapshot(url: str) -> bool:
    """Whether this is the address of an archive that gets no updates on purpose."""
    return bool(_SNAPSHOT.search(url))


def check_valid(release: Release, *, where: str, hint: str) -> None:
    """InputError for a Release whose `Valid-Until` has passed.

    The signature of an old index stays valid: without this check, whoever answers a plain HTTP
    request could keep a lock at packages with known vulnerabilities. Debian's suites without
    updates have no such field.
    """
    until = release.get("Valid-Until", "")
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


def checksums(release: Release, *, where: str) -> dict[str, tuple[str, int]]:
    """Path -> (SHA-256, size) of the indices; SHA-512 from a Release without SHA-256.

    One repository of NVIDIA's has only SHA-512 (https://github.com/NVIDIA/libnvidia-container,
    stable/deb/amd64/InRelease). InputError for lines that are not a checksum, a size and a path.
    """
    field = "SHA256" if "SHA256" in release else "SHA512"
    # A single entry on the field's own line comes as a mapping, an empty field as an empty one.
    entries = release.get(field) or []
    entries = entries if isinstance(entries, list) else [entries]
    try:
        return {entry["name"]: (entry[field], int(entry["size"])) for entry in entries}
    except (KeyError, ValueError):
        raise InputError(
            "an index can't be read", where=where, got=f"{field} without a size or a path"
        ) from None


def listed(paths: Mapping[str, object], name: str) -> str:
    """The path of an index, compressed or not, among those of a Release; "" without one."""
    candidates = (f"{dot}{name}{end}" for end in (".xz", ".gz", "") for dot in ("", "./"))
    return next((path for path in candidates if path in paths), "")


def unpacked(path: str, body: bytes, sizes: Mapping[str, tuple[str, int]]) -> str:
    """An index as text. InputError where it is not compressed as its name says.

    Also where it unpacks to more than the Release file says among `sizes`, as of `checksums`, or
    than any index has.
    """
    plain = path.removesuffix(".xz").removesuffix(".gz")
    limit = max(0, min(_LARGEST, sizes[plain][1])) if plain in sizes else _LARGEST
    try:
        text = _bytes(path, body, limit)
        if len(text) > limit:
            raise InputError(
                "an index unpacks to more than it should",
                where=path,
                got=f"{len(body)} bytes that unpack to more than {limit}",
                expected=f"at most {limit} bytes",
                hint="whoever signed it made it so: take another mirror, or another day's snapshot",
            )
        return text.decode("utf-8")
    except (lzma.LZMAError, OSError, EOFError, UnicodeDecodeError, MemoryError) as error:
        raise InputError.of(error, "an index can't be read", path) from None


def _bytes(path: str, body: bytes, limit: int) -> bytes:
    """What is compressed in `body`, up to one byte more than `limit`."""
    if path.endswith(".xz"):
        with lzma.open(io.BytesIO(body)) as stream:
            return stream.read(limit + 1)
    if path.endswith(".gz"):
        with gzip.open(io.BytesIO(body)) as stream:
            return stream.read(limit + 1)
    return body
