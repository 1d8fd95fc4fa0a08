"""Removal of CUDA: what is left of it on the host, and which libraries must not be in use."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .. import cuda, nvidia_driver
from . import nvidia_cuda

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

FILES = (cuda.PREFERENCES, nvidia_cuda.LOW, nvidia_cuda.APT, nvidia_cuda.LOADER)


def patterns(context: Context) -> Sequence[str]:
    """Patterns of the files that the role writes whole, with those that the driver needs not."""
    pins = context.read(nvidia_driver.PINS)
    own = () if "Source: network" in (pins or "") else nvidia_cuda.REPOSITORY
    return [*FILES, *own, *(() if pins is not None else (nvidia_cuda.SHARED,))]


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """What profile runtime took out of the toolkit's package, and our marks in NVIDIA's trees."""
    remains = [[path, "present"] for path in context.glob("/usr/local/cuda-*/" + nvidia_cuda.MARK)]
    if context.exists(cuda.TOOLS_MARKER) and cuda.TOOLS_PACKAGE not in context.packages:
        remains.append([cuda.TOOLS_MARKER, "present"])
    return remains


def sonames(context: Context) -> Sequence[str]:
    """The libraries that no process may have open."""
    return list(context.part(cuda.NAME).get("sonames") or {})
