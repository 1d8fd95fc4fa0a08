"""A key that has somebody else's public key as its subkey.

Such a key needs only the public half of the other key: the subkey, which is for encryption, is
bound by a signature of the primary key alone (RFC 4880, 5.2.1 and 12.1). Its fingerprint is the
other key's, so a program that looks for that fingerprint finds this key.
"""

from __future__ import annotations

import hashlib
import struct
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_RSA, _SHA256 = 1, 8
_CERTIFICATION, _SUBKEY_BINDING = 0x13, 0x18
# Subpackets: when it was signed, by which key, and what the key is for.
_CREATED, _ISSUER, _KEY_FLAGS = 2, 16, 27
_CERTIFY_AND_SIGN, _ENCRYPT = 0x03, 0x0C
_SIGNATURE, _PUBLIC_KEY, _USER_ID, _SUBKEY = 2, 6, 13, 14


def adopting(key: bytes, user: str = "Mallory <mallory@example.org>") -> bytes:
    """A new key, binary, whose subkey is the primary key of `key` (binary, as gpg exports it)."""
    secret = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = secret.public_key().public_numbers()
    created = struct.pack(">I", int(time.time()) - 60)
    primary = b"\4" + created + bytes([_RSA]) + _mpi(numbers.n) + _mpi(numbers.e)
    name, subkey = user.encode(), _first_body(key)
    certified = _of_key(primary) + b"\xb4" + struct.pack(">I", len(name)) + name
    bound = _of_key(primary) + _of_key(subkey)
    return b"".join(
        _packet(tag, body)
        for tag, body in (
            (_PUBLIC_KEY, primary),
            (_USER_ID, name),
            (_SIGNATURE, _signature(secret, primary, _CERTIFICATION, certified, _CERTIFY_AND_SIGN)),
            (_SUBKEY, subkey),
            (_SIGNATURE, _signature(secret, primary, _SUBKEY_BINDING, bound, _ENCRYPT)),
        )
    )


def _signature(
    secret: rsa.RSAPrivateKey, primary: bytes, kind: int, signed: bytes, flags: int
) -> bytes:
    """A version 4 signature packet's body."""
    key_id = hashlib.sha1(_of_key(primary), usedforsecurity=False).digest()[-8:]
    hashed = _subpacket(_CREATED, struct.pack(">I", int(time.time()) - 60))
    hashed += _subpacket(_KEY_FLAGS, bytes([flags]))
    head = bytes([4, kind, _RSA, _SHA256]) + struct.pack(">H", len(hashed)) + hashed
    data = signed + head + b"\4\xff" + struct.pack(">I", len(head))
    value = secret.sign(data, padding.PKCS1v15(), hashes.SHA256())
    issuer = _subpacket(_ISSUER, key_id)
    left = hashlib.sha256(data).digest()[:2]
    number = _mpi(int.from_bytes(value, "big"))
    return head + struct.pack(">H", len(issuer)) + issuer + left + number


def _first_body(key: bytes) -> bytes:
    """The body of the first packet, which is the primary key, with a length in the old format."""
    assert key[0] == 0x80 | _PUBLIC_KEY << 2 | 1, "an old format packet with two bytes of length"
    (length,) = struct.unpack(">H", key[1:3])
    return key[3 : 3 + length]


def _of_key(body: bytes) -> bytes:
    """What a signature and a fingerprint hash of a key."""
    return b"\x99" + struct.pack(">H", len(body)) + body


def _packet(tag: int, body: bytes) -> bytes:
    return bytes([0xC0 | tag, 0xFF]) + struct.pack(">I", len(body)) + body


def _subpacket(kind: int, data: bytes) -> bytes:
    return bytes([len(data) + 1, kind]) + data


def _mpi(number: int) -> bytes:
    bits = number.bit_length()
    return struct.pack(">H", bits) + number.to_bytes((bits + 7) // 8, "big")
