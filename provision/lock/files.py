"""What a stack fetches that is neither package nor wheel: cuDNN's archive, NVIDIA's installers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provision.catalog import Catalog


@dataclass(frozen=True)
class LockedFile:
    """A file: its title, its SHA-256 and its URLs; () where only people can fetch it."""

    title: str
    sha256: str
    urls: tuple[str, ...]


def of_stack(facts: Catalog, stack: Mapping[str, Mapping[str, Any]]) -> Iterator[LockedFile]:
    """The files of a stack of the lock."""
    if "cudnn" in stack:
        cudnn = stack["cudnn"]
        urls = [url for row in facts.cudnn if row.sha256 == cudnn["sha256"] for url in row.urls]
        yield LockedFile(f"cuDNN {cudnn['version']}", cudnn["sha256"], tuple(urls))
    for component, word in (("nvidia_driver", "runfile"), ("cuda", "installer")):
        part = stack.get(component, {}).get(word)
        if part:
            yield LockedFile(f"{component}, {word}", part["sha256"], (part["url"],))
