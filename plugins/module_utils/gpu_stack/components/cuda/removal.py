"""Removal of CUDA: what is left of it on the host, and which libraries must not be in use."""

from __future__ import annotations

from ...host.owned_files import owned
from ...type_checking import TYPE_CHECKING
from .. import cuda, nvidia_driver
from . import nvidia_cuda

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

# In the driver's pins where it comes from NVIDIA's repository.
NETWORK = "Source: network"
# The files that the role writes whole.
FILES = (
    *owned(cuda.PREFERENCES, nvidia_cuda.LOW, nvidia_cuda.APT, nvidia_cuda.LOADER),
    *owned(*nvidia_cuda.REPOSITORY, needed_by=nvidia_driver.PINS, saying=NETWORK),
    *owned(nvidia_cuda.SHARED, needed_by=nvidia_driver.PINS),
)
PARTS = {
    # What is in the way of CUDA from the platform.
    "nvidia": (
        *owned(nvidia_cuda.LOADER, nvidia_cuda.LOW),
        *owned(
            *(nvidia_cuda.APT, nvidia_cuda.SOURCES, nvidia_cuda.KEY),
            needed_by=nvidia_driver.PINS,
            saying=NETWORK,
        ),
    ),
}


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """What profile runtime took out of the toolkit's package, and our marks in NVIDIA's trees."""
    remains = [[path, "present"] for path in context.glob("/usr/local/cuda-*/" + nvidia_cuda.MARK)]
    if context.exists(cuda.TOOLS_MARKER) and cuda.TOOLS_PACKAGE not in context.packages:
        remains.append([cuda.TOOLS_MARKER, "present"])
    return remains


def sonames(context: Context) -> Sequence[str]:
    """The libraries that no process may have open."""
    return list(context.part(cuda.NAME).get("sonames") or {})
