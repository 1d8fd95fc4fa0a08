"""What a GPU model should be, as published: the figures that measured ones are judged by.

A threshold typed beside its check has no source, and holds for one model alone. These come from the
catalog, where each has its source; a figure that no source says is None, and is no threshold.
"""

from __future__ import annotations

import collections

from ..type_checking import TYPE_CHECKING
from .tables import GPU_FIGURE_SOURCES, GPU_FIGURES

if TYPE_CHECKING:
    from typing import Any

# Units and meanings are those of GpuFigureRow in provision/catalog/rows.py. name: without NVIDIA;
# source: a link to where they were published.
Figures = collections.namedtuple(
    "Figures",
    "name pcie_generation pcie_width fp32_tflops fp16_tensor_tflops memory_gb_per_s memory_mib"
    " ecc row_remapping nvlink_links mig power_limit_w source",
)


def figures(name: str) -> Any:
    """The Figures of a product name of NVML; None for a model without."""
    wanted = product(name)
    values = GPU_FIGURES.get(wanted)
    if values is None:
        return None
    return Figures(wanted, *values[:-1], source=GPU_FIGURE_SOURCES[values[-1]])


def product(name: str) -> str:
    """A name of NVML's as all drivers say it; older ones leave NVIDIA out."""
    words = name.split()
    return " ".join(words[1:] if words[:1] == ["NVIDIA"] else words)
