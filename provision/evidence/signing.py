"""The purpose of evidence's signatures."""

from __future__ import annotations

from pathlib import Path

from provision import signing
from provision.signing import Signer

# A signature that was made for another purpose, as Git's, does not count for evidence.
NAMESPACE = "provision-evidence"


def sign(data: bytes, key: Path) -> bytes:
    """As `signing.sign`, for evidence."""
    return signing.sign(data, key, NAMESPACE)


def verify(
    data: bytes, signature: Path, allowed_signers: Path, identity: str | None = None
) -> Signer:
    """As `signing.verify`, for evidence."""
    return signing.verify(data, signature, allowed_signers, identity, namespace=NAMESPACE)
