"""What NVIDIA published of a GPU model, by the name that a driver says."""

from __future__ import annotations

from provision.catalog import Catalog, load
from provision.catalog.gpu_rows import GpuFigureRow, product


def figures(name: str, catalog: Catalog | None = None) -> GpuFigureRow | None:
    """The figures of a product name of NVML; None for a model without."""
    wanted = product(name)
    rows = (catalog or load()).gpu_figures
    return next((row for row in rows if wanted in row.products), None)
