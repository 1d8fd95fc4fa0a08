"""How what runs on a host says that it does not do what is asked."""

from __future__ import annotations


class RefusalError(Exception):
    """The host does not allow the request; the message says why, and what to do."""
