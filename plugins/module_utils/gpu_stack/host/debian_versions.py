"""Versions compared as Debian compares them (deb-version(7))."""

from __future__ import annotations


def _order(sign: str) -> int:
    if sign == "~":
        return -1
    if sign.isdigit():
        return 0
    if sign.isalpha():
        return ord(sign)
    return ord(sign) + 256


def _compare_part(a: str, b: str) -> int:
    """verrevcmp() of dpkg's lib/dpkg/version.c."""
    i = j = 0
    while i < len(a) or j < len(b):
        while (i < len(a) and not a[i].isdigit()) or (j < len(b) and not b[j].isdigit()):
            left = _order(a[i]) if i < len(a) else 0
            right = _order(b[j]) if j < len(b) else 0
            if left != right:
                return -1 if left < right else 1
            i += 1
            j += 1
        start_i, start_j = i, j
        while i < len(a) and a[i].isdigit():
            i += 1
        while j < len(b) and b[j].isdigit():
            j += 1
        left = int(a[start_i:i] or "0")
        right = int(b[start_j:j] or "0")
        if left != right:
            return -1 if left < right else 1
    return 0


def _split(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, ""
    return int(epoch), upstream, revision


def compare(a: str, b: str) -> int:
    """-1, 0 or 1 by Debian's ordering of versions (deb-version(7))."""
    epoch_a, upstream_a, revision_a = _split(a)
    epoch_b, upstream_b, revision_b = _split(b)
    if epoch_a != epoch_b:
        return -1 if epoch_a < epoch_b else 1
    return _compare_part(upstream_a, upstream_b) or _compare_part(revision_a, revision_b)
