"""The hash by which a secret is compared where it must not be shown."""

from __future__ import annotations

import hashlib


def of_text(text: str) -> str:
    """SHA-256 of a token, a password or another text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
