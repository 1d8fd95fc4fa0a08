"""Which of Debian's files become which of NVIDIA's packages, with packages of a few bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ground import cuda, deb, debian

ARCH = "usr/lib/x86_64-linux-gnu"
# A file or a link (path -> its target) of each Debian package that these tests need.
DEBIAN: dict[str, dict[str, str]] = {
    "libcudart11.0": {
        f"{ARCH}/libcudart.so.11.2.152": "",
        f"{ARCH}/libcudart.so.11.0": "libcudart.so.11.2.152",
        "usr/share/doc/libcudart11.0/copyright": "",
    },
    "libcupti11.2": {f"{ARCH}/libcupti.so.2020.3.1": "", f"{ARCH}/libcupti.so.11.2": "l"},
    "nvidia-cuda-toolkit": {
        "usr/bin/nvcc": "",
        "usr/bin/ptxas": "",
        "usr/bin/nvprune": "",
        "usr/lib/nvidia-cuda-toolkit/bin/nvcc": "",
        "usr/lib/nvidia-cuda-toolkit/bin/nvcc.profile": "/etc/nvcc.profile",
        "usr/lib/nvidia-cuda-toolkit/bin/cicc": "",
        "usr/lib/nvidia-cuda-toolkit/bin/gcc": "",
        "usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc": "",
    },
    "libnvvm4": {f"{ARCH}/libnvvm.so.4.0.0": "", f"{ARCH}/libnvvm.so.4": "libnvvm.so.4.0.0"},
    "nvidia-cuda-dev": {
        "usr/include/cuda_runtime.h": "",
        "usr/include/crt/host_config.h": "",
        "usr/include/cublas_v2.h": "",
        f"{ARCH}/libcudart.so": "libcudart.so.11.0",
        f"{ARCH}/libcudart_static.a": "",
        f"{ARCH}/libcublas_static.a": "",
        f"{ARCH}/stubs/libcuda.so": "",
    },
}
ROOT = "usr/local/cuda-11.2"
LIB = f"{ROOT}/targets/x86_64-linux/lib"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is built of these packages: the directory of NVIDIA's."""
    sources = tmp_path / "debian"
    sources.mkdir()
    for name, contents in DEBIAN.items():
        package = deb.Writer(sources / f"{name}.deb", {"Package": name, "Version": "1"})
        for path, to in contents.items():
            if to:
                package.link(path, to)
            else:
                package.file(path, name, 0o755)
        package.close()
    monkeypatch.setattr(debian, "fetch", lambda _suite, name: sources / f"{name}.deb")
    cuda._kept.cache_clear()
    place = tmp_path / "made"
    place.mkdir()
    row = cuda.RELEASES["11.2"]
    for name in ("cuda-cudart", "cuda-nvcc", "cuda-cupti", "cuda-cudart-dev", "cuda-nvprune"):
        cuda._package(place, row, name)
    cuda._metapackages(place, row)
    cuda._kept.cache_clear()
    return place


def contents(made: Path, name: str) -> dict[str, str]:
    (path,) = made.glob(f"{name}_*.deb")
    return {path: entry.linkname for path, entry, _ in deb.files(path)}


def field(made: Path, name: str, which: str) -> str:
    (path,) = made.glob(f"{name}_*.deb")
    return subprocess.run(
        ["dpkg-deb", "--field", str(path), which], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_libraries_lie_in_the_targets_directory(made: Path) -> None:
    assert contents(made, "cuda-cudart-11-2") == {
        f"{LIB}/libcudart.so.11.2.152": "",
        f"{LIB}/libcudart.so.11.0": "libcudart.so.11.2.152",
    }
    assert field(made, "cuda-cudart-11-2", "Version") == "11.2.152-1"


def test_nvcc_is_the_program_and_not_debians_wrapper(made: Path) -> None:
    assert contents(made, "cuda-nvcc-11-2") == {
        f"{ROOT}/bin/nvcc": "",
        f"{ROOT}/bin/ptxas": "",
        f"{ROOT}/bin/nvcc.profile": "",
        f"{ROOT}/nvvm/bin/cicc": "",
        f"{ROOT}/nvvm/libdevice/libdevice.10.bc": "",
        f"{ROOT}/nvvm/lib64/libnvvm.so.4.0.0": "",
        f"{ROOT}/nvvm/lib64/libnvvm.so.4": "libnvvm.so.4.0.0",
        f"{ROOT}/nvvm/lib64/libnvvm.so": "libnvvm.so.4",
        f"{ROOT}/targets/x86_64-linux/include/crt/host_config.h": "",
    }
    assert set(field(made, "cuda-nvcc-11-2", "Depends").split(", ")) == {
        *("cuda-toolkit-11-2-config-common", "cuda-toolkit-11-config-common"),
        *("cuda-toolkit-config-common", "build-essential"),
    }


def test_cupti_lies_in_extras_and_is_found_in_the_targets_directory(made: Path) -> None:
    found = contents(made, "cuda-cupti-11-2")
    assert f"{ROOT}/extras/CUPTI/lib64/libcupti.so.2020.3.1" in found
    assert found[f"{LIB}/libcupti.so.11.2"] == "../../../extras/CUPTI/lib64/libcupti.so.11.2"


def test_headers_of_other_libraries_are_theirs(made: Path) -> None:
    assert set(contents(made, "cuda-cudart-dev-11-2")) == {
        f"{ROOT}/targets/x86_64-linux/include/cuda_runtime.h",
        f"{LIB}/libcudart.so",
        f"{LIB}/libcudart_static.a",
    }


def test_the_loader_and_the_alternative_are_reported(made: Path) -> None:
    assert contents(made, "cuda-toolkit-11-2-config-common") == {
        f"{ROOT}/lib64": "targets/x86_64-linux/lib",
        f"{ROOT}/include": "targets/x86_64-linux/include",
    }
    assert set(contents(made, "cuda-toolkit-11-config-common")) == {
        "etc/ld.so.conf.d/988_cuda-11.conf"
    }
    (path,) = made.glob("cuda-toolkit-11-2-config-common_*.deb")
    out = made / "control"
    subprocess.run(["dpkg-deb", "--control", str(path), str(out)], check=True)
    script = (out / "postinst").read_text()
    assert f"--install /usr/local/cuda cuda /{ROOT} 112" in script


def test_the_trap_is_in_the_metapackages_alone(made: Path) -> None:
    assert "cuda-drivers (>= 460.32.03)" in field(made, "cuda-runtime-11-2", "Depends")
    assert "cuda-runtime-11-2" in field(made, "cuda-11-2", "Depends")
    for name in ("cuda-toolkit-11-2", "cuda-libraries-11-2", "cuda-command-line-tools-11-2"):
        depends = field(made, name, "Depends")
        assert "driver" not in depends
        assert "runtime" not in depends


def test_a_version_is_nvidias_and_not_debians() -> None:
    rows = debian.pinned()
    assert rows["bullseye", "libcufft10"].version == "10.4.1.152"
    assert rows["bullseye", "libcublas11"].version == "11.4.1.1043"
    assert rows["bookworm", "libcusolver11"].version == "11.4.1.48"
