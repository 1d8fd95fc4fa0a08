"""Acceptance: whether each GPU of a host is well, and what to do about one that is not."""

from __future__ import annotations
