"""The simulated GPU of a lab host: its configuration, libraries and PCI entries.

The CUDA driver API and NVML are two small C libraries of ours (simulated_gpu/), so that the
real nvidia-smi and the real TensorFlow enumerate devices through the real CUDA and cuDNN
libraries. The kernel module is not simulated: checks that need it are not applicable.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from provision.errors import InputError, MachineError
from provision.locallab import health as keys
from provision.locallab.machine import locked

CONFIG = "/etc/gpu-simulated"
# What the kernel's log says of them: a container has no kernel of its own.
LOG = "/etc/gpu-simulated.log"
DIRECTORY = "/usr/local/lib/gpu-simulated"
# Sorts before all other ld.so.conf.d files: ldconfig prefers the first of several libraries with
# one soname, here to Debian's libcuda1 and libnvidia-ml1.
LOADER_CONFIG = "/etc/ld.so.conf.d/000-gpu-simulated.conf"
LIBRARIES = {"libcuda.so.1": "libcuda.c", "libnvidia-ml.so.1": "libnvidia-ml.c"}


# PCI classes: "3D controller", which has no display, and "VGA compatible controller".
CONTROLLER_3D = 0x030200
CONTROLLER_VGA = 0x030000


@dataclass(frozen=True)
class Model:
    """A GPU product; PCI ids as in pci.ids, the rest as its healthy nvidia-smi shows it.

    `hot` are the temperatures where it slows down and where it shuts itself down. With `bridge`
    its NVLinks are down until somebody joins two cards by a bridge.
    """

    device: int
    subsystem: int
    memory_mib: int
    compute_capability: str
    pcie_generation: int
    watts: int
    mhz: int
    hot: tuple[int, int]
    nvlinks: int = 0
    bridge: bool = False
    ecc: bool = True
    mig: bool = False
    passive: bool = True

    @property
    def ampere(self) -> bool:
        """Ampere or newer: such a card remaps rows of its memory, and retires no pages."""
        return int(self.compute_capability.split(".")[0]) >= 8

    @property
    def pci_class(self) -> int:
        return CONTROLLER_3D if self.passive else CONTROLLER_VGA

    def healthy(self) -> dict[str, str]:
        """What a healthy idle card answers. A key that is not there is a feature it lacks."""
        generation = str(self.pcie_generation)
        values = {
            "vbios": "simulated",
            "pcie_generation": "1",
            "pcie_max_generation": generation,
            "pcie_width": "16",
            "pcie_max_width": "16",
            "temperature": "30",
            "slowdown_temperature": str(self.hot[0]),
            "shutdown_temperature": str(self.hot[1]),
            "power": "10000",
            "power_limit": str(self.watts * 1000),
            "clock": "300",
            "clock_max": str(self.mhz),
            "performance_state": "8",
            "nvlinks": str(self.nvlinks),
        }
        if self.bridge:
            values["nvlinks_down"] = ",".join(str(link) for link in range(self.nvlinks))
        if self.ecc:
            values |= {"serial": "simulated", "ecc_mode": "1"}
            values["remapped_rows" if self.ampere else "retired_pages"] = (
                "0,0,0,0" if self.ampere else "0,0,0"
            )
        if self.mig:
            values["mig"] = "0,0"
        if not self.passive:
            values["fan"] = "30"
        return values


MODELS = {
    "Tesla T4": Model(0x1EB8, 0x12A2, 15360, "7.5", 3, 70, 1590, (93, 96)),
    "Tesla K80": Model(0x102D, 0x106C, 11441, "3.7", 3, 149, 875, (88, 93)),
    "Tesla V100-SXM2-16GB": Model(0x1DB1, 0x1212, 16160, "7.0", 3, 300, 1530, (87, 90), 6),
    "Tesla V100-PCIE-16GB": Model(0x1DB4, 0x1214, 16160, "7.0", 3, 250, 1380, (87, 90)),
    "NVIDIA A100-SXM4-40GB": Model(
        0x20B0, 0x134F, 40536, "8.0", 4, 400, 1410, (89, 92), 12, mig=True
    ),
    "NVIDIA A100 80GB PCIe": Model(
        0x20B5, 0x1533, 81920, "8.0", 4, 300, 1410, (89, 92), 12, bridge=True, mig=True
    ),
    "NVIDIA H100 80GB HBM3": Model(
        0x2330, 0x16C1, 81559, "9.0", 5, 700, 1980, (89, 92), 18, mig=True
    ),
    "NVIDIA H100 PCIe": Model(
        0x2331, 0x1626, 81559, "9.0", 5, 350, 1755, (89, 92), 12, bridge=True, mig=True
    ),
    "NVIDIA L4": Model(0x27B8, 0x16CA, 23034, "8.9", 4, 72, 2040, (89, 92)),
    "NVIDIA GeForce RTX 3090": Model(
        0x2204, 0x147D, 24576, "8.6", 4, 350, 2100, (95, 98), 4,
        bridge=True, ecc=False, passive=False,
    ),
    "NVIDIA GeForce RTX 2080 Ti": Model(
        0x1E07, 0x12A4, 11264, "7.5", 3, 260, 2100, (91, 94), 2,
        bridge=True, ecc=False, passive=False,
    ),
}  # fmt: skip
# {driver branch: CUDA version that its libcuda reports (cuDriverGetVersion)}
CUDA_OF_BRANCH = {
    "450": "11.0",
    "460": "11.2",
    "470": "11.4",
    "510": "11.6",
    "515": "11.7",
    "525": "12.0",
    "535": "12.2",
    "550": "12.4",
    "570": "12.8",
}


def product(name: str) -> str:
    """The full product name for a name or a part of one ('T4', 'A100'). Raises InputError."""
    if name in MODELS:
        return name
    for model_name in MODELS:
        if name and name.lower() in model_name.lower():
            return model_name
    raise InputError("no such GPU to simulate", got=name, expected=", ".join(sorted(MODELS)))


def model(name: str) -> Model:
    """The row of MODELS for a product name or a part of one."""
    return MODELS[product(name)]


def keys_of(name: str, count: int) -> keys.Host:
    """What can be said of `count` GPUs of this model. Raises InputError for an unknown one."""
    return keys.Host(product(name), count, model(name).healthy())


@dataclass(frozen=True)
class Simulated:
    """The content of /etc/gpu-simulated; `processes` are (pid, MiB) on GPU 0.

    `health` says by the keys of `health.KEYS` what single GPUs are sick with, `host` by those of
    `health.HOST_KEYS` what the host is. Raises InputError for a key or a value that is not there.
    """

    count: int = 2
    name: str = "Tesla T4"
    memory_mib: int = 15360
    driver_version: str = "470.256.02"
    compute_capability: str = "7.5"
    seed: str = "lab"
    processes: tuple[tuple[int, int], ...] = ()
    health: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, values in self.health.items():
            keys_of(self.name, self.count).check(values, gpu=index)
        if self.host:
            keys_of(self.name, self.count).check(self.host, gpu=None)

    @property
    def cuda_version(self) -> str:
        """The CUDA version of the driver; the newest of the table for an unknown branch."""
        branch = self.driver_version.split(".")[0]
        return CUDA_OF_BRANCH.get(branch, max(CUDA_OF_BRANCH.items())[1])

    def uuids(self) -> list[str]:
        """One stable GPU-<uuid> per GPU, different on every host."""
        uuids = []
        for index in range(self.count):
            digest = hashlib.sha256(f"{self.seed}:{index}".encode()).hexdigest()
            parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
            uuids.append("GPU-" + "-".join(parts))
        return uuids

    def text(self) -> str:
        """The file's text, which both libraries read, after a comment for people."""
        row = model(self.name)
        pairs = {
            "count": str(self.count),
            "name": self.name,
            "memory_mib": str(self.memory_mib),
            "driver_version": self.driver_version,
            "cuda_version": self.cuda_version,
            "compute_capability": self.compute_capability,
            "pci_device": f"0x{row.device:04x}",
            "pci_subsystem": f"0x{row.subsystem:04x}",
            "pci_class": f"0x{row.pci_class:06x}",
            "uuids": ",".join(self.uuids()),
            "processes": ",".join(f"{pid}:{memory}" for pid, memory in self.processes),
            **row.healthy(),
            **keys.newer(row.healthy(), self.driver_version),
            **keys.lines(self.health, self.host),
        }
        return (
            "# This host has no GPU. What nvidia-smi and TensorFlow see here is SIMULATED by a\n"
            "# local lab: it answers questions about devices and can run no work.\n"
            "# processes=PID:MIB,... makes NVML report work on GPU 0; gpuN.KEY=VALUE is of GPU N.\n"
        ) + "".join(f"{key}={value}\n" for key, value in pairs.items())


def parse(text: str) -> dict[str, str]:
    """KEY=value lines of /etc/gpu-simulated; comments and blank lines are skipped."""
    pairs = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#") and "=" in line:
            key, value = line.split("=", 1)
            pairs[key.strip()] = value.strip()
    return pairs


FIRST_BUS = 0x3B


def address(index: int) -> str:
    """The PCI address of a simulated GPU, each on its own bus as in real servers."""
    return f"0000:{FIRST_BUS + index:02x}:00.0"


def number(address: str) -> int:
    """Which GPU has this PCI address."""
    return int(address.split(":")[1], 16) - FIRST_BUS


# When the first Xid of a simulated GPU was, and how far apart they are: each is an incident.
FIRST_XID, BETWEEN_XIDS = 1764000000, 3600


def kernel_log(host: str, xids: Mapping[int, str]) -> str:
    """The kernel's log with these Xids, as journalctl prints it; {GPU: "13,31"}.

    Each is another process's; those of a part of the GPU are all of one.
    """
    text = ""
    for index, numbers in sorted(xids.items()):
        for place, xid in enumerate(numbers.split(",")):
            part = "Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): " if xid == "13" else ""
            text += (
                f"{FIRST_XID + BETWEEN_XIDS * place}.000000 {host} kernel: NVRM: "
                f"Xid (PCI:{address(index)[:-2]}): {xid}, pid={1000 + place}, name=python3, "
                f"{part}simulated\n"
            )
    return text


# PCIe generation -> the words of Linux for its speed (drivers/pci/pci.h: pci_speed_string).
SPEEDS = {
    "1": "2.5 GT/s PCIe",
    "2": "5.0 GT/s PCIe",
    "3": "8.0 GT/s PCIe",
    "4": "16.0 GT/s PCIe",
    "5": "32.0 GT/s PCIe",
    "6": "64.0 GT/s PCIe",
}


def pci_tree(simulated: Simulated | None) -> dict[str, str]:
    """{relative path: text} to mount over /sys/bus/pci/devices: a host bridge and the GPUs."""
    tree = _function("0000:00:00.0", 0x8086, 0x1237, (0x1AF4, 0x1100), 0x060000)
    if simulated:
        row = model(simulated.name)
        subsystem = (0x10DE, row.subsystem)
        for index in range(simulated.count):
            where = address(index)
            tree |= _function(where, 0x10DE, row.device, subsystem, row.pci_class)
            tree |= link(where, row, simulated.health.get(index, {}))
    return tree


def link(where: str, row: Model, sick: Mapping[str, str]) -> dict[str, str]:
    """The files of a card's PCIe link. What the link could be at most is the card's own."""
    healthy = row.healthy()
    now = {**healthy, **sick}
    return {
        f"{where}/current_link_speed": SPEEDS[now["pcie_generation"]] + "\n",
        f"{where}/current_link_width": now["pcie_width"] + "\n",
        f"{where}/max_link_speed": SPEEDS[healthy["pcie_max_generation"]] + "\n",
        f"{where}/max_link_width": healthy["pcie_max_width"] + "\n",
    }


def _function(
    where: str, vendor: int, device: int, subsystem: tuple[int, int], kind: int
) -> dict[str, str]:
    """The files of one PCI function."""
    modalias = (
        f"pci:v{vendor:08X}d{device:08X}sv{subsystem[0]:08X}sd{subsystem[1]:08X}"
        f"bc{kind >> 16:02X}sc{kind >> 8 & 0xFF:02X}i{kind & 0xFF:02X}\n"
    )
    return {
        f"{where}/vendor": f"0x{vendor:04x}\n",
        f"{where}/device": f"0x{device:04x}\n",
        f"{where}/subsystem_vendor": f"0x{subsystem[0]:04x}\n",
        f"{where}/subsystem_device": f"0x{subsystem[1]:04x}\n",
        f"{where}/class": f"0x{kind:06x}\n",
        f"{where}/revision": "0xa1\n",
        f"{where}/numa_node": "0\n",
        f"{where}/enable": "0\n",
        f"{where}/uevent": (
            f"PCI_CLASS={kind:X}\nPCI_ID={vendor:04X}:{device:04X}\n"
            f"PCI_SUBSYS_ID={subsystem[0]:04X}:{subsystem[1]:04X}\n"
            f"PCI_SLOT_NAME={where}\nMODALIAS={modalias}"
        ),
        f"{where}/modalias": modalias,
    }


def write_tree(folder: Path, tree: dict[str, str]) -> None:
    """Write a `pci_tree` under `where`."""
    for name, text in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")


def sources() -> dict[str, bytes]:
    """The C sources, as shipped with this package."""
    place = resources.files(__package__) / "simulated_gpu"
    return {
        entry.name: entry.read_bytes()
        for entry in sorted(place.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith((".c", ".h"))
    }


# No GNU extensions: with them a newer libc would bind to symbols that Debian 11's lacks.
FLAGS = (
    "-std=c99",
    "-O1",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-U_FORTIFY_SOURCE",
    "-s",
)


def compile_libraries(cache: Path, compiler: Sequence[str] = ("gcc",)) -> dict[str, bytes]:
    """{soname: library}, compiled once per version of the sources and cached in `cache`.

    Raises MachineError where the compiler fails.
    """
    files = sources()
    digest = hashlib.sha256(repr((sorted(files.items()), FLAGS)).encode()).hexdigest()[:12]
    folder = cache / f"simulated-gpu-{digest}"
    with locked(cache / "simulated-gpu.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                for name, text in files.items():
                    Path(work, name).write_bytes(text)
                ready = Path(work, "ready")
                ready.mkdir()
                for soname, source in LIBRARIES.items():
                    argv = [
                        *compiler,
                        *FLAGS,
                        f"-Wl,-soname,{soname}",
                        "-I",
                        work,
                        "-o",
                        str(ready / soname),
                        str(Path(work, source)),
                    ]
                    done = subprocess.run(argv, capture_output=True, check=False)
                    if done.returncode:
                        raise MachineError(
                            f"gcc could not compile {source}",
                            got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
                            hint="sudo apt-get install gcc libc6-dev",
                        )
                os.rename(ready, folder)
    return {soname: (folder / soname).read_bytes() for soname in LIBRARIES}
