"""The packed cuDNN archive has NVIDIA's layout and the same bytes every time."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from provision.errors import InputError, MachineError
from provision.locallab import cudnn_archive


def unpack(directory: Path) -> None:
    for name in ("include/cudnn.h", "include/cudnn_version.h", "lib/libcudnn.so.8"):
        path = directory / "nvidia" / "cudnn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
        os.utime(path)
    license_ = directory / "nvidia_cudnn_cu11-8.dist-info" / "License.txt"
    license_.parent.mkdir(exist_ok=True)
    license_.write_text("terms", "ascii")


def test_layout_is_nvidias(tmp_path: Path) -> None:
    packed = cudnn_archive.pack(tmp_path, fetch=unpack)
    assert packed.path.name == "cudnn-11.2-linux-x64-v8.5.0.96.tgz"
    with tarfile.open(packed.path) as tar:
        found = {entry.name: entry for entry in tar}
    assert sorted(found) == [
        "cuda/NVIDIA_SLA_cuDNN_Support.txt",
        "cuda/include/cudnn.h",
        "cuda/include/cudnn_version.h",
        "cuda/lib64/libcudnn.so",
        "cuda/lib64/libcudnn.so.8",
        "cuda/lib64/libcudnn.so.8.5.0",
    ]
    assert found["cuda/lib64/libcudnn.so"].linkname == "libcudnn.so.8"
    assert found["cuda/lib64/libcudnn.so.8"].linkname == "libcudnn.so.8.5.0"


def test_layout_is_nvidias_of_8_3_and_later(tmp_path: Path) -> None:
    packed = cudnn_archive.pack(tmp_path, version="8.7.0.84", fetch=unpack)
    top = "cudnn-linux-x86_64-8.7.0.84_cuda11-archive"
    assert packed.path.name == top + ".tar.xz"
    assert (packed.version, packed.cuda) == ("8.7.0.84", "11")
    with tarfile.open(packed.path, "r:xz") as tar:
        found = {entry.name: entry for entry in tar}
    assert sorted(found) == [
        f"{top}/LICENSE",
        f"{top}/include/cudnn.h",
        f"{top}/include/cudnn_version.h",
        f"{top}/lib/libcudnn.so",
        f"{top}/lib/libcudnn.so.8",
        f"{top}/lib/libcudnn.so.8.7.0",
    ]
    assert found[f"{top}/lib/libcudnn.so.8"].linkname == "libcudnn.so.8.7.0"


def test_both_versions_lie_in_one_cache(tmp_path: Path) -> None:
    """And each wish of an inventory is the archive's own."""
    old = cudnn_archive.pack(tmp_path, fetch=unpack)
    new = cudnn_archive.pack(tmp_path, version="8.7.0.84", fetch=unpack)
    assert old == cudnn_archive.pack(tmp_path, version="8.5.0.96", fetch=unpack)
    assert old.path != new.path
    assert old.sha256 != new.sha256


def test_the_wheels_hash_is_handed_to_the_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert "--require-hashes" in argv
        (name,) = [word for word in argv if word.startswith("--requirements=")]
        asked.append(Path(name.partition("=")[2]).read_text("ascii"))
        return subprocess.CompletedProcess(argv, 1, b"", b"no network")

    monkeypatch.setattr(subprocess, "run", run)
    for version, build in cudnn_archive.BUILDS.items():
        with pytest.raises(MachineError) as caught:
            cudnn_archive.pack(tmp_path, version=version)
        assert version in caught.value.message
        assert asked.pop() == (f"nvidia-cudnn-cu11=={version} --hash=sha256:{build.wheel_sha256}\n")
    hashes = [build.wheel_sha256 for build in cudnn_archive.BUILDS.values()]
    assert len(set(hashes)) == len(hashes)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)


def test_a_version_without_a_build_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        cudnn_archive.pack(tmp_path, version="8.1.0.77", fetch=unpack)
    assert caught.value.expected == "8.5.0.96, 8.7.0.84"


@pytest.mark.parametrize("version", cudnn_archive.BUILDS)
def test_same_wheel_same_bytes(tmp_path: Path, version: str) -> None:
    first = cudnn_archive.pack(tmp_path / "one", version=version, fetch=unpack)
    second = cudnn_archive.pack(tmp_path / "two", version=version, fetch=unpack)
    assert first.sha256 == second.sha256
    assert first.path.read_bytes() == second.path.read_bytes()


def test_gzip_keeps_no_time_of_its_own(tmp_path: Path) -> None:
    packed = cudnn_archive.pack(tmp_path, fetch=unpack)
    assert packed.path.read_bytes()[4:8] == bytes(4)  # gzip's own time stamp (RFC 1952)


def test_packed_once_and_again_only_when_damaged(tmp_path: Path) -> None:
    fetched: list[Path] = []

    def fetch(directory: Path) -> None:
        fetched.append(directory)
        unpack(directory)

    first = cudnn_archive.pack(tmp_path, fetch=fetch)
    assert cudnn_archive.pack(tmp_path, fetch=fetch) == first
    assert len(fetched) == 1
    first.path.write_bytes(first.path.read_bytes()[:-1])
    assert cudnn_archive.pack(tmp_path, fetch=fetch) == first
    assert len(fetched) == 2


def test_wheel_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError):
        cudnn_archive.pack(tmp_path, fetch=lambda _: None)
    assert not list(tmp_path.glob("*.tgz"))
