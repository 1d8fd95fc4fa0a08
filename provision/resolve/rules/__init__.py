"""The rules of a stack: each is a fact of the catalog, and says itself where it is in the way.

One module per component. Their order is that of the search: of two rules that explain a refusal
alike, the first is told.
"""

from __future__ import annotations

from provision.resolve.rules import container_toolkit, cuda, cudnn, driver, gcc, gpus, python
from provision.resolve.rules.clash import Fact

RULES: tuple[Fact, ...] = (
    python.WHEELS,
    python.PLATFORM,
    cuda.PLATFORM,
    cuda.TENSORFLOW,
    python.CUDA,
    cuda.GPUS,
    cudnn.TENSORFLOW,
    cudnn.CUDA,
    cudnn.PLATFORM,
    gpus.PLATFORM,
    driver.PLATFORM,
    driver.CUDA,
    driver.SOURCE,
    driver.TENSORFLOW,
    driver.GPUS,
    gpus.CODE,
    gcc.PLATFORM,
    gcc.CUDA,
    container_toolkit.PLATFORM,
)
