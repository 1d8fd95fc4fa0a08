"""stacks/gpu_cache.yml: what a cache of the fleet may fetch, which is what the lock names.

Without it a cache would be a proxy for whatever anybody asks of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from provision import collection
from provision.catalog import Catalog
from provision.lock import Lock
from provision.lock import files as locked_files
from provision.lock.model import wheels
from provision.yaml_text import dump

NAME = "gpu_cache.yml"
VARIABLE = "artifact_cache_contents"


def contents(lock: Lock, facts: Catalog) -> dict[str, Any]:
    """{lock, platforms, archives, files, projects} of all stacks: the lock's digest, the addresses
    of package archives, {SHA-256: addresses}, and the names of the wheels' projects.
    """
    layout = collection.stack_module("host.bundle_layout")
    archives: set[str] = set()
    files: dict[str, list[str]] = {}
    projects: set[str] = set()
    for name, stack in lock.stacks.items():
        archives |= {source["url"] for source in lock.details["sources"][name]}
        archives |= _repositories(stack)
        for file in locked_files.of_stack(facts, stack):
            files[file.sha256] = [url for url in file.urls if _is_served(url)]
        projects |= set(map(canonicalize_name, wheels(lock.requirements[name])))
    return {
        "lock": lock.digest,
        "platforms": sorted({layout.platform_id(row["platform"]) for row in lock.slim["rows"]}),
        "archives": sorted(filter(_is_served, archives)),
        "files": {sha256: files[sha256] for sha256 in sorted(files) if files[sha256]},
        "projects": sorted(projects),
    }


def _repositories(stack: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The addresses of NVIDIA's repositories."""
    return {part["repository"]["url"] for part in stack.values() if part.get("repository")}


def _is_served(url: str) -> bool:
    """Whether a cache can fetch it: from a web server, without a password of anybody's."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and "@" not in parts.netloc


def render(lock: Lock, facts: Catalog) -> bytes:
    """The file's bytes."""
    header = (
        "What the fleet's cache may fetch (role artifact_cache).\n"
        "Made by `provision render` from lock.yml."
    )
    return dump({VARIABLE: contents(lock, facts)}, header=header)
