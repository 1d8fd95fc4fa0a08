"""OpenPGP public keys: ASCII armor, and the keys in a file.

A key from the network is trusted by its fingerprint alone, which must be computed from the key
itself. And only keys that were parsed here are ever passed on, written anew: gpgv and apt read more
kinds of packets than this module does, and would trust a second key hidden in one of them. Only the
standard library: the generator runs without gpg.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from provision.errors import InputError

# Packet tags (RFC 4880, 4.3).
_SIGNATURE, _PUBLIC_KEY, _TRUST, _USER_ID, _SUBKEY, _ATTRIBUTE = 2, 6, 12, 13, 14, 17
# The allowed versions of packets that have one, and all packets that a key may have.
_VERSIONS = {_PUBLIC_KEY: (4,), _SUBKEY: (4,), _SIGNATURE: (3, 4)}
_PARTS = {*_VERSIONS, _TRUST, _USER_ID, _ATTRIBUTE}
_BEGIN, _END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
_BLOCK = re.compile(
    rf"^{_BEGIN}[ \t]*\n(?:[^\n]+\n)*?[ \t]*\n(.*?)^{_END}", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Key:
    """A primary key with its user ids, subkeys and their signatures, and nothing else."""

    fingerprint: str
    data: bytes

    @property
    def armored(self) -> str:
        """The key as a file of its own."""
        return armor(self.data)


def dearmor(text: str, *, where: str = "") -> bytes:
    """The binary form of ASCII-armored public keys, of all blocks, as gpgv reads it."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if not blocks or len(blocks) != text.count(_BEGIN):
        raise InputError("not an armored public key", where=where, got=text[:40])
    return b"".join(_unpacked(body, where) for body in blocks)


def _unpacked(body: str, where: str) -> bytes:
    """The bytes of one block, whose checksum (the line that begins with "=") must match."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    checks = [line for line in lines if line.startswith("=")]
    try:
        data = base64.b64decode("".join(lines[: len(lines) - len(checks)]), validate=True)
        sums = [base64.b64decode(line[1:], validate=True) for line in checks]
    except ValueError:
        raise InputError("not an armored public key", where=where, got=body[:40]) from None
    if sums not in ([], [_crc24(data).to_bytes(3, "big")]):
        raise InputError(
            "an armored key does not fit its checksum", where=where, got="".join(checks)[:40]
        )
    return data


def armor(key: bytes) -> str:
    """The ASCII armor of a binary public key (RFC 4880, 6.2)."""
    body = base64.b64encode(key).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    check = base64.b64encode(_crc24(key).to_bytes(3, "big")).decode()
    return "\n".join([_BEGIN, "", *lines, f"={check}", _END, ""])


def is_page(data: bytes) -> bool:
    """Whether it is a page, as a proxy answers with."""
    return data.lstrip()[:1] == b"<"


def called(data: bytes) -> str:
    """Describes an unexpected answer to a person."""
    return "an HTML page" if is_page(data) else repr(data[:40])


def read(data: bytes, *, where: str) -> list[Key]:
    """The keys of a file, armored or not. InputError for a file with anything else in it."""
    if _BEGIN.encode() in data:
        data = dearmor(data.decode("ascii", errors="replace"), where=where)
    if data[:1] < b"\x80":  # no packet begins like this
        raise InputError(
            "this is no public key",
            where=where,
            got=called(data),
            expected=f"an OpenPGP public key, armored ({_BEGIN}) or not",
            hint="a login page or a proxy answered" if is_page(data) else "",
        )
    return keys(data, where=where)


def as_armored(data: bytes, *, where: str) -> str:
    """The keys of a file as armored text. InputError for a file with anything else in it."""
    return armor(b"".join(key.data for key in read(data, where=where)))


def keys(data: bytes, *, where: str) -> list[Key]:
    """The keys of a binary file, each written anew without gpg's trust packets.

    InputError unless all of the file is keys.
    """
    packets_of_keys: list[list[bytes]] = []
    primary: list[bytes] = []
    for tag, body in _packets(data, where):
        if tag == _PUBLIC_KEY:
            primary.append(body)
            packets_of_keys.append([])
        if not packets_of_keys:
            raise _not_a_key(where, f"a packet with tag {tag} before the first key")
        if tag not in _PARTS:
            raise _not_a_key(where, f"a packet with tag {tag}")
        if tag in _VERSIONS and (body[0] if body else 0) not in _VERSIONS[tag]:
            raise _not_a_key(where, f"a packet with tag {tag} and version {body[:1].hex()}")
        if tag != _TRUST:  # gpg's own notes in its keyrings
            packets_of_keys[-1].append(_packet(tag, body))
    return [
        Key(_fingerprint(body), b"".join(packets))
        for body, packets in zip(primary, packets_of_keys, strict=True)
    ]


def fingerprints(key: bytes) -> list[str]:
    """The fingerprints of the primary keys in a binary key file."""
    return [primary.fingerprint for primary in keys(key, where="a key")]


def _fingerprint(body: bytes) -> str:
    hashed = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(hashed).hexdigest().upper()  # noqa: S324  RFC 4880, 12.2


def _not_a_key(where: str, got: str) -> InputError:
    return InputError(
        "the key file holds something else than a key",
        where=where,
        got=got,
        expected="public keys of version 4, their user ids, subkeys and signatures, and no more",
        hint="a program that checks signatures could find another key in it; nothing was taken",
    )


def _packets(data: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    """(tag, body) of each packet (RFC 4880, 4.2). InputError unless all of the data is packets."""
    at = 0
    while at < len(data):
        header = data[at]
        if not header & 0x80:
            raise _not_a_key(where, f"byte {at} begins no packet: {data[at : at + 16]!r}")
        if header & 0x40:
            tag, start, length = header & 0x3F, *_new_length(data, at + 1)
        else:
            tag, size = (header >> 2) & 0x0F, (1, 2, 4, 0)[header & 3]
            start = at + 1 + size
            length = int.from_bytes(data[at + 1 : start], "big") if size else -1
        if length < 0:
            raise _not_a_key(where, f"a packet with tag {tag} and no definite length, at byte {at}")
        if start + length > len(data):
            raise _not_a_key(where, f"a packet that is cut off, at byte {at}")
        yield tag, data[start : start + length]
        at = start + length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    """(where the body begins, its length) of a packet in the new format; -1 for a partial one."""
    octet = data[at] if at < len(data) else 0
    if octet < 192:
        return at + 1, octet
    if octet < 224:
        return at + 2, ((octet - 192) << 8) + int.from_bytes(data[at + 1 : at + 2], "big") + 192
    if octet == 255:
        return at + 5, int.from_bytes(data[at + 1 : at + 5], "big")
    return at + 1, -1


def _packet(tag: int, body: bytes) -> bytes:
    """A packet as gpg writes it: the old format, with the shortest length, where the tag allows."""
    if tag > 15:
        return bytes([0xC0 | tag, 0xFF]) + len(body).to_bytes(4, "big") + body
    size = next(size for size in (1, 2, 4) if len(body) < 1 << 8 * size)
    return bytes([0x80 | tag << 2 | size.bit_length() - 1]) + len(body).to_bytes(size, "big") + body


def _crc24(data: bytes) -> int:
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc & 0xFFFFFF
