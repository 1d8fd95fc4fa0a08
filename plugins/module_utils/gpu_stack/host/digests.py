"""SHA-256 of what is compared: of secrets, which must not be shown, and of files."""

from __future__ import annotations

import hashlib

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import Context


def of_text(text: str) -> str:
    """SHA-256 of a token, a password or another text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def of_file(context: Context, path: str) -> str | None:
    """SHA-256 of a file's content; None without a file that can be read."""
    data = context.read_bytes(path)
    return None if data is None else hashlib.sha256(data).hexdigest()
