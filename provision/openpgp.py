"""OpenPGP keys as text and as bytes: armor, and the fingerprints of the keys in a file.

A key that comes over the network is believed by its fingerprint alone, so that must be computed
from the key itself and not be read from what stands beside it. Only the standard library: the
generator runs where no gpg is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator

from provision.errors import InputError

_PUBLIC_KEY = 6  # the tag of a primary key's packet (RFC 4880, 4.3)
_BLOCK = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[^\n]+\n)*?\n(.*?)(?:\n=[^\n]+)?\n"
    r"-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)


def dearmor(text: str) -> bytes:
    """An ASCII-armored public key -> the binary form that gpgv reads."""
    body = _BLOCK.search(text)
    if body is None:
        raise InputError("not an armored public key", got=text[:40])
    try:
        return base64.b64decode(body.group(1))
    except ValueError:
        raise InputError("not an armored public key", got=body.group(1)[:40]) from None


def armor(key: bytes) -> str:
    """The binary form of a public key -> ASCII armor (RFC 4880, 6.2)."""
    body = base64.b64encode(key).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    check = base64.b64encode(_crc24(key).to_bytes(3, "big")).decode()
    return "\n".join(
        [
            "-----BEGIN PGP PUBLIC KEY BLOCK-----",
            "",
            *lines,
            f"={check}",
            "-----END PGP PUBLIC KEY BLOCK-----",
            "",
        ]
    )


def as_armored(data: bytes, *, where: str) -> str:
    """A key file's text, armored or not as it may lie there. InputError for what is no key."""
    if b"-----BEGIN PGP PUBLIC KEY BLOCK-----" in data:
        text = data.decode("ascii", errors="replace").replace("\r\n", "\n")
        key = dearmor(text)
    else:
        key = data
    if not fingerprints(key):
        page = data.lstrip()[:1] == b"<"
        raise InputError(
            "this is no public key",
            where=where,
            got="an HTML page" if page else repr(data[:40]),
            expected="an OpenPGP public key, armored (-----BEGIN PGP PUBLIC KEY BLOCK-----) or not",
            hint="a login page or a proxy answered" if page else "",
        )
    return armor(key)


def fingerprints(key: bytes) -> list[str]:
    """The fingerprints of the primary keys in a binary key file; none of what is no such file."""
    found = []
    for tag, body in _packets(key):
        if tag == _PUBLIC_KEY and body[:1] == b"\x04":
            hashed = b"\x99" + len(body).to_bytes(2, "big") + body
            found.append(hashlib.sha1(hashed).hexdigest().upper())  # noqa: S324  RFC 4880, 12.2
    return found


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, body) of each packet (RFC 4880, 4.2); ends where the data is none."""
    at = 0
    while at + 2 <= len(data) and data[at] & 0x80:
        first = data[at]
        if first & 0x40:
            tag, at, length = first & 0x3F, *_new_length(data, at + 1)
        else:
            tag, size = (first >> 2) & 0x0F, (1, 2, 4, 0)[first & 3]
            length = int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else -1
            at += 1 + size
        if length < 0 or at + length > len(data):
            return
        yield tag, data[at : at + length]
        at += length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    """(where the body begins, its length) of a packet in the new format; -1 for a partial one."""
    one = data[at]
    if one < 192:
        return at + 1, one
    if one < 224 and at + 1 < len(data):
        return at + 2, ((one - 192) << 8) + data[at + 1] + 192
    if one == 255:
        return at + 5, int.from_bytes(data[at + 1 : at + 5], "big")
    return at + 1, -1


def _crc24(data: bytes) -> int:
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc & 0xFFFFFF
