"""Cures for unreachable hosts, as the collection has them for the end of a run."""

from __future__ import annotations

from collections.abc import Callable

from provision import collection

unreachable: Callable[[str], str] = collection.module("plugin_utils", "cures.py").unreachable
