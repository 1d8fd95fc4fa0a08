"""Keeps locked versions while upstream has them.

A lock that moved with every new version upstream would change two hundred hosts because one was
added. So a row whose wish and platform are unchanged keeps its choices, its packages and its
wheels as long as the indices have them; `--upgrade` releases all, or those that it names.

Pure: catalogs, indices and locks in, choices and preferences out.
"""

from __future__ import annotations

from provision.lock.keep.hashes import changed, check_hashes, file_hashes, gone, same_hashes
from provision.lock.keep.held import (
    SOURCES,
    Held,
    Upgrade,
    by_stack,
    packages,
    upgrade_of,
    version_of,
    wheel_versions,
)
from provision.lock.keep.hold import choose
from provision.lock.keep.narrow import narrowed_to, resolved
from provision.lock.keep.settle import settle

__all__ = [
    "SOURCES",
    "Held",
    "Upgrade",
    "by_stack",
    "changed",
    "check_hashes",
    "choose",
    "file_hashes",
    "gone",
    "narrowed_to",
    "packages",
    "resolved",
    "same_hashes",
    "settle",
    "upgrade_of",
    "version_of",
    "wheel_versions",
]
