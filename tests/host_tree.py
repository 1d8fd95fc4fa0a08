"""A host as a folder: its files and links, by the paths that they have on the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put(root: Path, path: str, content: str | bytes = "", mode: int = 0o644) -> Path:
    """A file of the host below `root`, with the directories that it needs."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(mode)
    return file


def link(root: Path, path: str, target: str) -> Path:
    """A link of the host, in place of what is there."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    return place


def tree(
    root: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None
) -> Path:
    """The host below `root`, with these files and links."""
    for path, content in files.items():
        put(root, path, content)
    for path, target in (links or {}).items():
        link(root, path, target)
    return root
