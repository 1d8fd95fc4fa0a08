"""Certificates as bytes: out of EFI's signature lists, out of PEM, and their serial numbers.

Pure, and without a library for ASN.1, which no host is sure to have.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct

# EFI_CERT_X509_GUID, a5c059a1-94e4-4aa7-87b5-ab155c2bf072, as it lies in memory.
X509 = bytes.fromhex("a159c0a5e494a74a87b5ab155c2bf072")
HEADER = struct.Struct("<16sIII")
OWNER = 16
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")
SEQUENCE, INTEGER, VERSION = 0x30, 0x02, 0xA0


def of_lists(data: bytes) -> list[bytes]:
    """The X.509 certificates (DER) of a chain of EFI_SIGNATURE_LISTs; what is cut off ends it."""
    certificates = []
    while len(data) >= HEADER.size:
        kind, length, header, size = HEADER.unpack_from(data)
        if not HEADER.size + header <= length <= len(data):
            break
        if kind == X509 and size > OWNER:
            entries = data[HEADER.size + header : length]
            for start in range(0, len(entries) - size + 1, size):
                certificates.append(entries[start + OWNER : start + size])
        data = data[length:]
    return certificates


def der(data: bytes) -> bytes:
    """A certificate in DER, of PEM or DER; b"" where it is neither."""
    match = PEM.search(data)
    if match is not None:
        try:
            data = base64.b64decode(b"".join(match.group(1).split()), validate=True)
        except binascii.Error:
            return b""
    element = _element(data)
    # What follows the certificate in the file is no part of it.
    return data[: element[2]] if element is not None and element[0] == SEQUENCE else b""


def serial(data: bytes) -> str:
    """The serial number of a certificate in DER, in hex; "" where it has none."""
    certificate = _element(data)
    signed = _element(data, certificate[1]) if certificate else None
    first = _element(data, signed[1]) if signed else None
    if first is not None and first[0] == VERSION:
        first = _element(data, first[2])
    if first is None or first[0] != INTEGER:
        return ""
    return data[first[1] : first[2]].hex()


def _element(data: bytes, start: int = 0) -> tuple[int, int, int] | None:
    """(tag, begin, end of the content) of the ASN.1 element there; None where it is cut off."""
    if len(data) < start + 2:
        return None
    tag, length, begin = data[start], data[start + 1], start + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[begin : begin + count], "big")
        begin += count
    return (tag, begin, begin + length) if begin + length <= len(data) else None
