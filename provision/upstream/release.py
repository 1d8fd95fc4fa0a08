"""Release files: who signed one, until when it is valid, and which index has which checksum.

Nothing is believed before it is verified, by gpgv against pinned key fingerprints.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path

from debian.deb822 import Release

from provision.catalog import Archive
from provision.errors import InputError, MachineError
from provision.upstream.keys import dearmor

# Seconds that gpgv may take.
_TIMEOUT = 60


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


def check_valid(release: Release, *, where: str, hint: str) -> None:
    """InputError for a Release whose `Valid-Until` has passed.

    The signature of an old index holds for ever: without its date, whoever answers a plain HTTP
    request could keep a lock at packages with known holes. Debian's suites without updates have no
    such field.
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
    """Path -> (SHA-256, size) of the indices; SHA-512 from a Release that has only these.

    NVIDIA's repository of the container toolkit is such a one
    (https://github.com/NVIDIA/libnvidia-container, stable/deb/amd64/InRelease). InputError for
    lines that are not a checksum, a size and a path.
    """
    field = "SHA256" if "SHA256" in release else "SHA512"
    # A single entry on the field's own line comes as a mapping, an empty field as an empty one.
    entries = release.get(field) or []
    entries = entries if isinstance(entries, list) else [entries]
    try:
        return {one["name"]: (one[field], int(one["size"])) for one in entries}
    except (KeyError, ValueError):
        raise InputError(
            "an index can't be read", where=where, got=f"{field} without a size or a path"
        ) from None


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
