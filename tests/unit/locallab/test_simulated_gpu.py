"""The simulated GPU's configuration and PCI entries, and its libraries as a program sees them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    first, again, other = (gpu.Simulated(seed=seed).uuids() for seed in ("a", "a", "b"))
    assert first == again
    assert not set(first) & set(other)


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


PROCESSES_ENTRY = 213


class PciInfoExt(ctypes.Structure):
    """nvmlPciInfoExt_v1_t."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("version", "domain", "bus", "device")),
        *((name, ctypes.c_uint) for name in ("id", "subsystem", "base_class", "sub_class")),
        ("text", ctypes.c_char * 32),
    )


class ProcessNamed(ctypes.Structure):
    """An entry of the list that nvidia-smi 535 and newer take from the export table."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
        ("protected_used", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 4096),
    )


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The simulated NVML with a configuration of its own, two processes on GPU 0."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    tmp_path = tmp_path_factory.mktemp("nvml")
    config = tmp_path / "gpu-simulated"
    config.write_text(
        gpu.Simulated(count=2, processes=((os.getpid(), 500), (1, 7))).text(), "ascii"
    )
    compiler = ("gcc", f'-DSIMULATED_CONFIG="{config}"')
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(gpu.compile_libraries(tmp_path, compiler)["libnvidia-ml.so.1"])
    loaded = ctypes.CDLL(str(library))
    assert loaded.nvmlInit_v2() == 0
    return loaded


def device(nvml: Any, index: int) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(found)) == 0
    return found


def test_nvidia_smi_550_gets_the_address(nvml: Any) -> None:
    """It asks nvmlDeviceGetPciInfoExt; without it pci.bus_id is "[Function Not Found]"."""
    info = PciInfoExt(version=0x1000040)
    assert ctypes.sizeof(info) == 0x40
    assert nvml.nvmlDeviceGetPciInfoExt(device(nvml, 1), ctypes.byref(info)) == 0
    assert info.text == b"00000000:3C:00.0"
    assert (info.bus, info.id) == (0x3C, 0x1EB810DE)
    assert (info.base_class, info.sub_class) == (3, 2)
    info.version = 0x2000040
    assert nvml.nvmlDeviceGetPciInfoExt(device(nvml, 1), ctypes.byref(info)) == 25
    assert nvml.nvmlDeviceGetPciInfoExt(device(nvml, 1), None) == 2


def test_nvidia_smi_535_gets_the_processes(nvml: Any) -> None:
    """It calls an entry of the export table; past its end it says "[Uninitialized]"."""
    assert ctypes.sizeof(ProcessNamed) == 4128
    table = ctypes.POINTER(ctypes.c_void_p)()
    assert nvml.nvmlInternalGetExportTable(ctypes.byref(table), None) == 0
    size = table[0] or 0
    assert size > (PROCESSES_ENTRY + 1) * ctypes.sizeof(ctypes.c_void_p)
    assert all(table[index] for index in range(size // ctypes.sizeof(ctypes.c_void_p)))
    list_ = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p
    )(table[PROCESSES_ENTRY] or 0)
    found = (ProcessNamed * 4)()
    count = ctypes.c_uint(4)
    assert list_(device(nvml, 0), ctypes.byref(count), found) == 0
    assert count.value == 2
    assert (found[0].pid, found[0].used) == (os.getpid(), 500 << 20)
    assert (found[1].pid, found[1].used) == (1, 7 << 20)
    first = Path(f"/proc/{os.getpid()}/cmdline").read_bytes().split(b"\0")[0]
    assert found[0].name == first
    # no room: how many there are, and nothing written
    none = ctypes.c_uint(0)
    assert list_(device(nvml, 0), ctypes.byref(none), None) == 7
    assert none.value == 2
    idle = ctypes.c_uint(4)
    assert list_(device(nvml, 1), ctypes.byref(idle), found) == 0
    assert idle.value == 0
    # every other entry says that it is not supported, as before
    other = ctypes.CFUNCTYPE(ctypes.c_int)(table[1] or 0)
    assert other() == 3


# What nvidia-smi 535.261.03, 535.309.01 and 550.163.01 look up by name and 470 did not.
NEWER = (
    "nvmlDeviceClearFieldValues nvmlDeviceGetC2cModeInfoV nvmlDeviceGetGpuFabricInfoV "
    "nvmlDeviceGetNumaNodeId nvmlDeviceGetVgpuHeterogeneousMode "
    "nvmlDeviceSetVgpuHeterogeneousMode nvmlDeviceGetVgpuInstancesUtilizationInfo "
    "nvmlDeviceGetVgpuProcessesUtilizationInfo nvmlDeviceGetVgpuTypeCreatablePlacements "
    "nvmlDeviceGetVgpuTypeSupportedPlacements nvmlSystemGetConfComputeKeyRotationThresholdInfo "
    "nvmlSystemSetConfComputeKeyRotationThresholdInfo nvmlSystemGetConfComputeSettings "
    "nvmlVgpuInstanceGetPlacementId"
)


@pytest.mark.parametrize("name", NEWER.split())
def test_what_newer_drivers_ask_is_not_supported_rather_than_absent(nvml: Any, name: str) -> None:
    assert getattr(nvml, name)() == 3
