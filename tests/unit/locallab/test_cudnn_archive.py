"""The packed cuDNN archive has NVIDIA's layout and the same bytes every time."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from provision.errors import MachineError
from provision.locallab import cudnn_archive


def unpack(directory: Path) -> None:
    for name in ("include/cudnn.h", "include/cudnn_version.h", "lib/libcudnn.so.8"):
        path = directory / "nvidia" / "cudnn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
        os.utime(path)


def test_layout_is_nvidias(tmp_path: Path) -> None:
    packed = cudnn_archive.pack(tmp_path, fetch=unpack)
    assert packed.path.name == "cudnn-11.2-linux-x64-v8.5.0.96.tgz"
    with tarfile.open(packed.path) as tar:
        found = {entry.name: entry for entry in tar}
    assert sorted(found) == [
        "cuda/include/cudnn.h",
        "cuda/include/cudnn_version.h",
        "cuda/lib64/libcudnn.so",
        "cuda/lib64/libcudnn.so.8",
        "cuda/lib64/libcudnn.so.8.5.0",
    ]
    assert found["cuda/lib64/libcudnn.so"].linkname == "libcudnn.so.8"
    assert found["cuda/lib64/libcudnn.so.8"].linkname == "libcudnn.so.8.5.0"


def test_same_wheel_same_bytes(tmp_path: Path) -> None:
    one = cudnn_archive.pack(tmp_path / "one", fetch=unpack)
    two = cudnn_archive.pack(tmp_path / "two", fetch=unpack)
    assert one.sha256 == two.sha256
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.path.read_bytes()[4:8] == bytes(4)  # gzip's own time stamp (RFC 1952)


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
