"""Removal of cuDNN: what is left of it on the host, and which files must not be in use."""

from __future__ import annotations

from ...host import owned_directories
from ...host.owned_files import owned
from ...type_checking import TYPE_CHECKING
from .. import cudnn
from . import tree

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

# The files that the role writes whole.
FILES = owned(cudnn.LOADER_FILE)


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """The trees that the role unpacked, and the links to them in CUDA's trees."""
    root = cudnn.root_of(context.options)
    links = tree.settle(context, None, {}, doing=False)
    unpacked = owned_directories.marked(context, root, cudnn.layout.MANIFEST)
    return unpacked + [[path, "present"] for path in links]


def root(context: Context) -> str:
    """The directory below which no process may have a file open as code."""
    return cudnn.root_of(context.options)
