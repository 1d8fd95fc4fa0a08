"""A simulated NVML, compiled once for each module that asks it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provision.locallab import gpu


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """(the simulated NVML, the file that it reads)."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("nvml")
    config = folder / "gpu-simulated"
    compiler = ("gcc", f'-DSIMULATED_CONFIG="{config}"')
    path = folder / "libnvidia-ml.so.1"
    path.write_bytes(gpu.compile_libraries(folder, compiler)["libnvidia-ml.so.1"])
    return str(path), config
