"""Kernel modules that a power cut has left empty or cut short."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest
from gpu_stack.components.nvidia_driver import driver_method, module_files
from gpu_stack.host.context import Context

from tests.host_tree import link, put

KERNEL = "5.10.0-46-amd64"
INSTALLED = f"/lib/modules/{KERNEL}/updates/dkms"
KEPT = f"/var/lib/dkms/nvidia-current/470.256.02/{KERNEL}/x86_64/module"
NAMES = ("nvidia-current", "nvidia-current-modeset", "nvidia-current-uvm")
ROW = {"version": "470.256.02", "packages": {"kernel": {"nvidia-kernel-dkms": "470.256.02-2"}}}


def elf(content: int = 1000) -> bytes:
    """A file with the header of ELF and two sections, whose table is its end."""
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    struct.pack_into("<Q", header, 0x28, 64 + content)
    struct.pack_into("<HH", header, 0x3A, 64, 2)
    return bytes(header) + b"x" * content + b"s" * 128


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in NAMES:
        put(tmp_path, f"{KEPT}/{name}.ko", elf())
        put(tmp_path, f"{INSTALLED}/{name}.ko", elf())
    link(
        tmp_path,
        f"/var/lib/dkms/nvidia-current/kernel-{KERNEL}-x86_64",
        f"470.256.02/{KERNEL}/x86_64",
    )
    return tmp_path


def version(host: Path) -> str | None:
    return driver_method.module(Context(root=str(host)), KERNEL, ROW)


def test_modules_that_are_whole_have_their_version(host: Path) -> None:
    assert version(host) == "470.256.02"


@pytest.mark.parametrize("content", [b"", bytes(1192), elf()[:-1], elf()[:80]])
@pytest.mark.parametrize("folder", [INSTALLED, KEPT])
@pytest.mark.parametrize("name", NAMES)
def test_any_module_that_is_not_whole_is_none(
    host: Path, folder: str, name: str, content: bytes
) -> None:
    """Only nvidia-current.ko was asked for; CUDA needs nvidia-current-uvm.ko."""
    put(host, f"{folder}/{name}.ko", content)
    assert version(host) is None
    broken = module_files.broken(Context(root=str(host)), KEPT, INSTALLED)
    assert broken == [f"{folder}/{name}.ko"]


def test_a_module_that_is_gone_is_named(host: Path) -> None:
    (host / INSTALLED.lstrip("/") / "nvidia-current-uvm.ko").unlink()
    assert version(host) is None
    broken = module_files.broken(Context(root=str(host)), KEPT, INSTALLED)
    assert broken == [f"{INSTALLED}/nvidia-current-uvm.ko"]


def test_a_signature_behind_the_sections_is_no_fault(host: Path) -> None:
    put(host, f"{INSTALLED}/nvidia-current.ko", elf() + b"~Module signature appended~\n")
    assert version(host) == "470.256.02"


def test_a_copy_may_be_compressed(host: Path) -> None:
    place = host / INSTALLED.lstrip("/")
    (place / "nvidia-current-uvm.ko").unlink()
    put(host, f"{INSTALLED}/nvidia-current-uvm.ko.xz", lzma.compress(elf()))
    assert version(host) == "470.256.02"
    put(host, f"{INSTALLED}/nvidia-current-uvm.ko.xz", lzma.compress(elf())[:-1])
    assert version(host) is None


@pytest.mark.parametrize("start", [b"\x28\xb5\x2f\xfd", b"\x1f\x8b"])
def test_of_other_compressions_the_first_bytes_count(host: Path, start: bytes) -> None:
    path = f"{INSTALLED}/nvidia-current-uvm.ko"
    put(host, path, start + b"rest")
    assert module_files.whole(Context(root=str(host)), path)
    put(host, path, b"\0" * 8)
    assert not module_files.whole(Context(root=str(host)), path)


def test_a_build_that_dkms_does_not_keep_says_nothing(host: Path) -> None:
    for path in (host / KEPT.lstrip("/")).iterdir():
        path.unlink()
    assert version(host) == "470.256.02"
