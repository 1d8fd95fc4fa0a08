"""Where things lie in a bundle, and in whatever else stands in for the places that a lock names.

`provision bundle` writes by it and hosts read by it. This file imports nothing of ours: the
generator runs it by itself.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

MANIFEST = "manifest.json"
# In an unfinished bundle, and in one that has only what an earlier one lacks.
UNFINISHED = ".unfinished"
DELTA = "delta.json"
# What the manifest says of how it is to be read.
FORMAT = 1
# The folders of a bundle.
ARCHIVES, FILES, WHEELS, SIMPLE, SOURCES = "archives", "files", "wheels", "simple", "sources"
# What hosts read of one.
READ = (MANIFEST, ARCHIVES, FILES, WHEELS, SIMPLE)


def archive(url: str) -> str:
    """The path of a package archive: its address, without a password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].replace(":", "_")
    return "/".join([ARCHIVES, host, *filter(None, parts.path.split("/"))])


def file(sha256: str, url: str) -> str:
    """The path of what is neither package nor wheel, by its hash and its first address."""
    name = unquote(urlsplit(url).path).rpartition("/")[2]
    return "/".join([FILES, sha256, name or "archive"])


def keyring(distribution: str) -> str:
    """The file with the keys that a distribution signs its archive with."""
    return f"/usr/share/keyrings/{distribution}-archive-keyring.gpg"


def platform_id(platform: dict[str, str]) -> str:
    """The name of a platform in a bundle, as debian13 or ubuntu2204."""
    return platform["distribution"] + platform["release"].replace(".", "")
