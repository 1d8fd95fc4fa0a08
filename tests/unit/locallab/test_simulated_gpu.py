"""The simulated GPU's configuration and PCI entries, and its libraries as a program sees them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision.errors import InputError
from provision.locallab import gpu

PCI_DISPLAY = "0x030200\n"


def test_config_says_that_it_is_simulated_and_reads_back() -> None:
    simulated = gpu.Simulated(count=3, seed="a", processes=((42, 100), (43, 7)))
    text = simulated.text()
    assert "SIMULATED" in text.splitlines()[0]
    pairs = gpu.parse(text)
    assert pairs["count"] == "3"
    assert pairs["name"] == "Tesla T4"
    assert pairs["cuda_version"] == "11.4"
    assert pairs["processes"] == "42:100,43:7"
    assert len(set(pairs["uuids"].split(","))) == 3


def test_uuids_are_stable_and_differ_between_hosts() -> None:
    one, again, other = (gpu.Simulated(seed=seed).uuids() for seed in ("a", "a", "b"))
    assert one == again
    assert not set(one) & set(other)


def test_unknown_driver_branch_answers_the_newest_cuda() -> None:
    assert gpu.Simulated(driver_version="999.1").cuda_version == "12.8"
    assert gpu.Simulated(driver_version="450.80.02").cuda_version == "11.0"


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("Tesla T4", "0x1eb8\n"),
        ("NVIDIA A100 80GB PCIe", "0x20b5\n"),
        ("Tesla V100-PCIE-16GB", "0x1db4\n"),
        ("K80", "0x102d\n"),
        ("H100", "0x2330\n"),
    ],
)
def test_pci_entries_are_of_the_product(name: str, device: str) -> None:
    tree = gpu.pci_tree(gpu.Simulated(count=2, name=name))
    found = [where.split("/")[0] for where, text in tree.items() if text == "0x10de\n"]
    functions = {where for where in found if tree[f"{where}/class"] == PCI_DISPLAY}
    assert functions == {"0000:3b:00.0", "0000:3c:00.0"}
    assert {tree[f"{where}/device"] for where in functions} == {device}
    assert "PCI_SLOT_NAME=0000:3b:00.0\n" in tree["0000:3b:00.0/uevent"]


def test_host_without_gpu_has_no_nvidia_function() -> None:
    tree = gpu.pci_tree(None)
    assert tree
    assert "0x10de\n" not in tree.values()


def test_part_of_a_name_finds_the_product() -> None:
    assert gpu.product("H100") == "NVIDIA H100 80GB HBM3"
    assert gpu.product("Tesla T4") == "Tesla T4"


def test_unknown_gpu_is_refused_with_the_list() -> None:
    with pytest.raises(InputError) as caught:
        gpu.pci_tree(gpu.Simulated(name="Voodoo 2"))
    assert "Tesla T4" in caught.value.expected


def test_tree_is_written_as_files(tmp_path: Path) -> None:
    gpu.write_tree(tmp_path, gpu.pci_tree(gpu.Simulated(count=1)))
    assert (tmp_path / "0000:3b:00.0/vendor").read_text("ascii") == "0x10de\n"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_libraries_without_configuration_have_no_gpu(tmp_path: Path) -> None:
    """On a machine that is no simulated host the libraries claim nothing."""
    if Path(gpu.CONFIG).exists():
        pytest.skip("this machine is a simulated host")
    libraries = gpu.compile_libraries(tmp_path)
    for soname, data in libraries.items():
        (tmp_path / soname).write_bytes(data)
    program = (
        "import ctypes\n"
        f"print(ctypes.CDLL('{tmp_path}/libcuda.so.1').cuInit(0))\n"
        f"print(ctypes.CDLL('{tmp_path}/libnvidia-ml.so.1').nvmlInit_v2())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["100", "9"]  # no device; driver not loaded


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_libraries_need_no_newer_libc_than_debian_11s(tmp_path: Path) -> None:
    gpu.compile_libraries(tmp_path)
    for library in tmp_path.rglob("*.so.1"):
        done = subprocess.run(
            ["objdump", "-T", str(library)], capture_output=True, text=True, check=True
        )
        versions = {
            tuple(int(part) for part in word.strip("()").removeprefix("GLIBC_").split("."))
            for word in done.stdout.split()
            if word.strip("()").startswith("GLIBC_2")
        }
        assert versions
        assert max(versions) <= (2, 31)
