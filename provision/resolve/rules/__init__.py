"""The rules of a stack: each is a fact of the catalog, with the words for a refusal.

One module per component. Of two rules that explain a refusal equally well, the first is reported.
"""

from __future__ import annotations

from provision.resolve.rules import cuda, cudnn, driver, gcc, gpus, python
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
    gpus.PTX,
    gcc.PLATFORM,
    gcc.CUDA,
)
