"""Compares provision/catalog/cuda_releases.yml with CUDA's compiler in the wheels on PyPI.

For each release on PyPI: the highest gcc that crt/host_config.h accepts, and the compute
capabilities that `ptxas --help` names. Prints one line per release; exits with 1 where the catalog
differs. Downloads about 400 MB and runs ptxas of x86_64.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

CATALOG = Path(__file__).resolve().parents[1] / "provision" / "catalog" / "cuda_releases.yml"

# Release -> the wheels that hold ptxas and host_config.h, of its last update.
WHEELS: dict[str, list[str]] = {
    "11.7": ["nvidia-cuda-nvcc-cu11==11.7.99"],
    "11.8": ["nvidia-cuda-nvcc-cu11==11.8.89"],
    "12.0": ["nvidia-cuda-nvcc-cu12==12.0.140"],
    "12.1": ["nvidia-cuda-nvcc-cu12==12.1.105"],
    "12.2": ["nvidia-cuda-nvcc-cu12==12.2.140"],
    "12.3": ["nvidia-cuda-nvcc-cu12==12.3.107"],
    "12.4": ["nvidia-cuda-nvcc-cu12==12.4.131"],
    "12.5": ["nvidia-cuda-nvcc-cu12==12.5.82"],
    "12.6": ["nvidia-cuda-nvcc-cu12==12.6.85"],
    "12.8": ["nvidia-cuda-nvcc-cu12==12.8.93"],
    "12.9": ["nvidia-cuda-nvcc-cu12==12.9.86"],
    "13.0": ["nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-crt==13.0.88"],
}
GLIBC = ("manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_25", "manylinux_2_27")


def download(requirement: str, folder: Path) -> Path:
    """Downloads the wheel of a requirement with pip, which checks its hash; returns its path."""
    platforms = [f"--platform={glibc}_x86_64" for glibc in GLIBC]
    subprocess.run(
        [
            *[sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"],
            *["--only-binary=:all:", *platforms, "--dest", str(folder), requirement],
        ],
        check=True,
    )
    return next(folder.glob("*.whl"))


def capabilities(ptxas: Path) -> list[str]:
    """The real architectures of `ptxas --help`, sm_86 as "8.6"; variants like sm_90a left out."""
    shown = subprocess.run([str(ptxas), "--help"], capture_output=True, text=True, check=True)
    numbers = {int(number) for number in re.findall(r"'sm_(\d+)'", shown.stdout)}
    return [f"{number // 10}.{number % 10}" for number in sorted(numbers)]


def measure(requirements: list[str]) -> dict[str, Any]:
    """gcc_maximum and capabilities of one release."""
    measured: dict[str, Any] = {}
    for requirement in requirements:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            with zipfile.ZipFile(download(requirement, here)) as wheel:
                for name in wheel.namelist():
                    if name.endswith("crt/host_config.h"):
                        text = wheel.read(name).decode()
                        gcc = re.search(r"gcc versions later than (\d+)", text)
                        measured["gcc_maximum"] = gcc[1] if gcc else None
                    elif name.endswith("/bin/ptxas"):
                        (here / "ptxas").write_bytes(wheel.read(name))
                        (here / "ptxas").chmod(0o700)
                        measured["capabilities"] = capabilities(here / "ptxas")
    return measured


def main() -> int:
    """Measure the releases named on the command line, or all."""
    rows = {r["release"]: r for r in yaml.safe_load(CATALOG.read_text("utf-8"))["cuda_releases"]}
    wrong = 0
    for release in sys.argv[1:] or WHEELS:
        measured = measure(WHEELS[release])
        differing = {key: value for key, value in measured.items() if rows[release][key] != value}
        wrong += len(differing)
        print(f"{release}: {differing or 'as in the catalog'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
