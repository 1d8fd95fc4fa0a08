"""What the simulated NVML answers of a GPU that is sick, read anew at each call."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provision.locallab import gpu

OK, INVALID, NOT_SUPPORTED, NOT_FOUND, NO_ROOM, LOST = 0, 2, 3, 6, 7, 15
OTHER_VERSION = 25
T4, A100, V100 = "Tesla T4", "NVIDIA A100-SXM4-40GB", "Tesla V100-SXM2-16GB"
GEFORCE = "NVIDIA GeForce RTX 3090"
Health = Mapping[int, Mapping[str, str]]


class Card:
    """The simulated NVML, on a host whose file each test writes."""

    def __init__(self, library: Any, config: Path) -> None:
        self.library = library
        self.config = config

    def write(
        self,
        name: str,
        health: Health | None = None,
        host: Mapping[str, str] | None = None,
        **values: Any,
    ) -> None:
        made = gpu.Simulated(
            name=name,
            memory_mib=gpu.model(name).memory_mib,
            compute_capability=gpu.model(name).compute_capability,
            health=health or {},
            host=host or {},
            **values,
        )
        self.config.write_text(made.text(), "ascii")

    def start(self, *arguments: Any, **values: Any) -> None:
        """A host on which NVML is initialized."""
        self.write(*arguments, **values)
        assert self.library.nvmlInit_v2() == OK

    def device(self, index: int = 0) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        assert self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(found)) == OK
        return found

    def ask(
        self,
        name: str,
        *arguments: Any,
        device: Any = None,
        count: int = 1,
        kind: Any = ctypes.c_uint,
    ) -> Any:
        """The values of a function, one alone as a number; the code where it fails, below 0."""
        values = [kind() for _ in range(count)]
        call = getattr(self.library, f"nvmlDeviceGet{name}")
        code = call(
            self.device() if device is None else device,
            *arguments,
            *(ctypes.byref(value) for value in values),
        )
        if code:
            return -code
        return values[0].value if count == 1 else tuple(value.value for value in values)

    def text(self, name: str, device: Any = None) -> str | int:
        buffer = ctypes.create_string_buffer(96)
        call = getattr(self.library, f"nvmlDeviceGet{name}")
        code = call(self.device() if device is None else device, buffer, 96)
        return int(-code) if code else buffer.value.decode()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("sick")
    config = folder / "gpu-simulated"
    compiled = gpu.compile_libraries(folder, ("gcc", f'-DSIMULATED_CONFIG="{config}"'))
    for soname, data in compiled.items():
        (folder / soname).write_bytes(data)
    nvml, cuda = (
        ctypes.CDLL(str(folder / soname)) for soname in ("libnvidia-ml.so.1", "libcuda.so.1")
    )
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    return nvml, cuda, config


@pytest.fixture
def card(library: tuple[Any, Any, Path]) -> Card:
    return Card(library[0], library[2])


def test_a_lost_gpu_says_so_to_every_question_and_is_counted(card: Card) -> None:
    card.start(T4)
    healthy, lost = card.device(0), card.device(1)
    card.write(T4, {1: {"lost": "1"}})
    count = ctypes.c_uint()
    assert card.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == OK
    assert count.value == 2
    where = ctypes.c_void_p()
    assert card.library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(where)) == LOST
    assert card.library.nvmlDeviceGetHandleByIndex(1, ctypes.byref(where)) == LOST
    assert card.library.nvmlErrorString(LOST) == b"GPU is lost"
    assert card.text("Name", lost) == -LOST
    # a question that no simulated GPU answers, and one of a pair
    assert card.library.nvmlDeviceGetSamples(lost) == LOST
    assert card.library.nvmlDeviceGetSamples(healthy) == NOT_SUPPORTED
    assert card.ask("TopologyCommonAncestor", lost, device=healthy) == -LOST
    card.write(T4)
    assert card.text("Name", lost) == T4


# function, further arguments, how many values, healthy answer, key, sick value, sick answer
NUMBERS: list[tuple[str, tuple[int, ...], int, Any, str, str, Any]] = [
    ("CurrPcieLinkGeneration", (), 1, 1, "pcie_generation", "2", 2),
    ("MaxPcieLinkGeneration", (), 1, 3, "pcie_max_generation", "1", 1),
    ("GpuMaxPcieLinkGeneration", (), 1, 3, "pcie_max_generation", "1", 3),
    ("CurrPcieLinkWidth", (), 1, 16, "pcie_width", "4", 4),
    ("MaxPcieLinkWidth", (), 1, 16, "pcie_max_width", "8", 8),
    ("PcieReplayCounter", (), 1, 0, "replays", "77", 77),
    ("EccMode", (), 2, (1, 1), "ecc_mode", "0", (0, 0)),
    ("RetiredPagesPendingStatus", (), 1, 0, "retired_pages", "0,0,1", 1),
    ("Temperature", (0,), 1, 30, "temperature", "95", 95),
    ("TemperatureThreshold", (0,), 1, 96, "shutdown_temperature", "60", 60),
    ("TemperatureThreshold", (1,), 1, 93, "slowdown_temperature", "50", 50),
    ("PowerUsage", (), 1, 10000, "power", "69000", 69000),
    ("EnforcedPowerLimit", (), 1, 70000, "power_limit", "60000", 60000),
    ("PowerManagementLimit", (), 1, 70000, "power_limit", "60000", 60000),
    ("PowerManagementDefaultLimit", (), 1, 70000, "power_limit", "60000", 70000),
    ("ClockInfo", (0,), 1, 300, "clock", "585", 585),
    ("ClockInfo", (1,), 1, 300, "clock", "585", 585),
    ("MaxClockInfo", (1,), 1, 1590, "clock_max", "1005", 1005),
    ("PerformanceState", (), 1, 8, "performance_state", "0", 0),
    ("PersistenceMode", (), 1, 0, "persistence", "1", 1),
    ("ComputeMode", (), 1, 0, "compute_mode", "2", 2),
    ("DisplayMode", (), 1, 0, "display", "1", 1),
    ("DisplayActive", (), 1, 0, "display", "1", 1),
]


@pytest.mark.parametrize(
    ("name", "arguments", "count", "healthy", "key", "value", "sick"),
    NUMBERS,
    ids=[f"{row[0]}{row[1] or ''}" for row in NUMBERS],
)
def test_each_number_is_the_models_and_then_the_gpus_own(
    card: Card,
    name: str,
    arguments: tuple[int, ...],
    count: int,
    healthy: object,
    key: str,
    value: str,
    sick: object,
) -> None:
    card.start(T4)
    changed_gpu, other = card.device(0), card.device(1)
    assert card.ask(name, *arguments, device=changed_gpu, count=count) == healthy
    card.write(T4, {0: {key: value}})
    assert card.ask(name, *arguments, device=changed_gpu, count=count) == sick
    assert card.ask(name, *arguments, device=other, count=count) == healthy


def test_a_line_that_is_appended_by_hand_counts(card: Card) -> None:
    card.start(T4, {0: {"temperature": "40"}})
    with card.config.open("a", encoding="ascii") as file:
        file.write("gpu0.temperature=50\ntemperature=60\n")
    assert card.ask("Temperature", 0) == 50
    assert card.ask("Temperature", 0, device=card.device(1)) == 60


def test_serial_and_vbios_are_the_cards_own(card: Card) -> None:
    card.start(T4, {0: {"serial": "0324217012345", "vbios": "90.04.38.00.03"}})
    assert card.text("Serial") == "0324217012345"
    assert card.text("VbiosVersion") == "90.04.38.00.03"
    other = card.text("Serial", card.device(1))
    assert other == "simulated-" + gpu.Simulated().uuids()[1][4:12]
    card.start(GEFORCE)
    assert card.text("Serial") == -NOT_SUPPORTED


def test_ecc_errors_by_kind_and_counter(card: Card) -> None:
    large = ctypes.c_ulonglong
    keys = ("ecc_corrected", "ecc_corrected_aggregate", "ecc_uncorrected")
    values = dict(zip(keys, ("1", str(2**40), "3"), strict=True))
    card.start(T4, {0: {**values, "ecc_uncorrected_aggregate": "4"}})

    def errors(kind: int, counter: int) -> Any:
        return card.ask("TotalEccErrors", kind, counter, kind=large)

    assert [errors(kind, counter) for kind in (0, 1) for counter in (0, 1)] == [1, 2**40, 3, 4]
    assert card.ask("MemoryErrorCounter", 1, 0, 2, kind=large) == 3
    assert card.ask("MemoryErrorCounter", 1, 0, 7, kind=large) == 0
    assert errors(2, 0) == errors(0, 2) == -INVALID
    card.start(T4, {0: {"ecc_mode": "0"}})
    assert errors(0, 0) == -NOT_SUPPORTED
    card.start(GEFORCE)
    assert errors(0, 0) == -NOT_SUPPORTED
    assert card.ask("EccMode", count=2) == -NOT_SUPPORTED


def test_rows_are_remapped_from_ampere_on_and_pages_retired_before(card: Card) -> None:
    card.start(A100, {0: {"remapped_rows": "3,2,1,1"}})
    assert card.ask("RemappedRows", count=4) == (3, 2, 1, 1)
    assert card.ask("RemappedRows", device=card.device(1), count=4) == (0, 0, 0, 0)
    assert card.ask("RetiredPagesPendingStatus") == -NOT_SUPPORTED
    card.start(T4)
    assert card.ask("RemappedRows", count=4) == -NOT_SUPPORTED
    card.start(GEFORCE)
    assert card.ask("RemappedRows", count=4) == -NOT_SUPPORTED
    assert card.ask("RetiredPagesPendingStatus") == -NOT_SUPPORTED


def test_a_structure_of_another_version_is_refused(card: Card) -> None:
    card.start(A100, {0: {"sram_errors": "1,2,1", "repairs_pending": "1,1"}})
    library = card.library
    for call in (library.nvmlDeviceGetSramEccErrorStatus, library.nvmlDeviceGetRepairStatus):
        assert call(card.device(), (ctypes.c_uint * 26)(0x2000068)) == OTHER_VERSION


def test_retired_pages_are_listed_by_their_cause(card: Card) -> None:
    card.start(V100, {0: {"retired_pages": "1,3,0"}})
    device, count = card.device(), ctypes.c_uint(0)
    addresses, times = (ctypes.c_ulonglong * 4)(), (ctypes.c_ulonglong * 4)()
    pages = card.library.nvmlDeviceGetRetiredPages
    assert pages(device, 1, ctypes.byref(count), None) == NO_ROOM
    assert count.value == 3
    assert pages(device, 1, ctypes.byref(count), addresses) == OK
    assert len(set(addresses[:3])) == 3
    count.value = 4
    newer = card.library.nvmlDeviceGetRetiredPages_v2
    assert newer(device, 0, ctypes.byref(count), addresses, times) == OK
    assert (count.value, times[0] > 0) == (1, True)
    assert pages(device, 2, ctypes.byref(count), addresses) == INVALID
    card.start(V100)
    count.value = 0
    assert pages(card.device(), 0, ctypes.byref(count), None) == OK


def test_throttle_reasons_are_bits(card: Card) -> None:
    large = ctypes.c_ulonglong
    card.start(T4)
    assert card.ask("CurrentClocksThrottleReasons", kind=large) == 1  # idle
    assert card.ask("SupportedClocksThrottleReasons", kind=large) == 0x1FF
    card.write(T4, {0: {"throttle": "0x48"}})
    assert card.ask("CurrentClocksThrottleReasons", kind=large) == 0x48
    assert card.ask("CurrentClocksEventReasons", kind=large) == 0x48


def test_a_passive_card_has_no_fan(card: Card) -> None:
    card.start(T4)
    assert card.ask("FanSpeed") == -NOT_SUPPORTED
    card.start(GEFORCE, {0: {"fan": "0"}})
    assert card.ask("FanSpeed") == 0
    assert card.ask("FanSpeed_v2", 0, device=card.device(1)) == 30
    assert card.ask("FanSpeed_v2", 1) == -INVALID


def test_what_nvml_has_no_such_kind_of(card: Card) -> None:
    card.start(T4)
    assert card.ask("ClockInfo", 2) == card.ask("TemperatureThreshold", 3) == -NOT_SUPPORTED
    assert card.ask("ClockInfo", 4) == card.ask("TemperatureThreshold", 8) == -INVALID


def test_a_gpu_at_work_leaves_its_idle_state(card: Card) -> None:
    card.start(T4, {1: {"processes": f"{os.getpid()}:300,1:5"}}, processes=((1, 7),))
    busy = card.device(1)
    count = ctypes.c_uint(0)
    works = card.library.nvmlDeviceGetComputeRunningProcesses_v2
    assert works(busy, ctypes.byref(count), None) == NO_ROOM
    assert count.value == 2
    assert works(card.device(0), ctypes.byref(count), None) == NO_ROOM
    assert count.value == 1
    memory = (ctypes.c_ulonglong * 3)()
    assert card.library.nvmlDeviceGetMemoryInfo(busy, memory) == OK
    assert memory[2] == 305 << 20
    assert card.ask("CurrPcieLinkGeneration", device=busy) == 3
    assert card.ask("ClockInfo", 1, device=busy) == 1590
    assert card.ask("PerformanceState", device=busy) == 0
    assert card.ask("CurrentClocksThrottleReasons", device=busy, kind=ctypes.c_ulonglong) == 0
    work = {"processes": "1:5", "pcie_generation": "1", "clock": "300"}
    card.write(T4, {1: work})
    assert card.ask("CurrPcieLinkGeneration", device=busy) == 1
    assert card.ask("ClockInfo", 1, device=busy) == 300


def test_mig_instances_are_devices_of_their_own(card: Card) -> None:
    card.start(A100, {0: {"mig": "1,0", "mig_devices": "2"}, 1: {"mig": "0,1", "mig_devices": "1"}})
    assert card.ask("MigMode", count=2) == (1, 0)
    assert card.ask("MigMode", device=card.device(1), count=2) == (0, 1)
    assert card.ask("MaxMigDeviceCount") == 7
    assert card.ask("MaxMigDeviceCount", device=card.device(1)) == 0
    found = [ctypes.c_void_p(), ctypes.c_void_p()]
    handle = card.library.nvmlDeviceGetMigDeviceHandleByIndex
    assert [handle(card.device(), i, ctypes.byref(found[i])) for i in (0, 1)] == [OK, OK]
    names = [str(card.text("UUID", device)) for device in (*found, card.device())]
    assert len(set(names)) == 3
    assert [name[:4] for name in names] == ["MIG-", "MIG-", "GPU-"]
    assert str(card.text("Name", found[0])).endswith(" MIG 1g.5gb")
    is_instance = ctypes.c_uint()
    assert card.library.nvmlDeviceIsMigDeviceHandle(found[1], ctypes.byref(is_instance)) == OK
    assert is_instance.value == 1
    parent = ctypes.c_void_p()
    up = card.library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle
    assert up(found[1], ctypes.byref(parent)) == OK
    assert parent.value == card.device().value
    assert handle(card.device(), 2, ctypes.byref(parent)) == NOT_FOUND
    assert handle(card.device(), 7, ctypes.byref(parent)) == INVALID
    assert handle(card.device(1), 0, ctypes.byref(parent)) == NOT_FOUND
    assert card.ask("RemappedRows", count=4) == -NOT_SUPPORTED
    card.start(T4)
    assert card.ask("MigMode", count=2) == -NOT_SUPPORTED
    assert handle(card.device(), 0, ctypes.byref(parent)) == NOT_SUPPORTED


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "id", "subsystem")),
        ("text", ctypes.c_char * 32),
    )


class OldPci(ctypes.Structure):
    """nvmlPciInfo_v2_t."""

    _fields_ = (
        ("text", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "id", "subsystem")),
        ("reserved", ctypes.c_uint * 4),
    )


def test_nvlinks_go_up_and_down_and_have_an_other_end(card: Card) -> None:
    card.start(V100, {0: {"nvlinks_down": "2,5", "nvlink_errors": "9"}}, count=3)

    def ends(index: int, links: int) -> list[int]:
        found = []
        for link in range(links):
            pci = Pci()
            call = card.library.nvmlDeviceGetNvLinkRemotePciInfo_v2
            code = call(card.device(index), link, ctypes.byref(pci))
            found.append(-code if code else pci.bus)
        return found

    states = [card.ask("NvLinkState", link) for link in range(7)]
    assert states == [1, 1, 0, 1, 1, 0, -INVALID]
    assert ends(0, 7) == [0x3C, 0x3D, -NOT_SUPPORTED, 0x3D, 0x3C, -NOT_SUPPORTED, -INVALID]
    assert ends(1, 2) == [0x3B, 0x3D]
    assert card.ask("NvLinkErrorCounter", 0, 3, kind=ctypes.c_ulonglong) == 9
    assert card.ask("NvLinkErrorCounter", 0, 5, kind=ctypes.c_ulonglong) == -INVALID
    card.write(V100, {0: {"nvlinks": "3", "nvlink_peer": "1,1,2"}}, count=3)
    assert ends(0, 4) == [0x3C, 0x3C, 0x3D, -INVALID]
    old = OldPci()
    call = card.library.nvmlDeviceGetNvLinkRemotePciInfo
    assert call(card.device(), 2, ctypes.byref(old)) == OK
    assert old.text == b"0000:3D:00.0"


def test_a_bridge_is_what_brings_the_links_of_a_card_up(card: Card) -> None:
    card.start(GEFORCE)
    assert [card.ask("NvLinkState", link) for link in range(4)] == [0, 0, 0, 0]
    card.write(GEFORCE, {0: {"nvlinks_down": ""}})
    assert [card.ask("NvLinkState", link) for link in range(4)] == [1, 1, 1, 1]
    card.start(T4)
    assert card.ask("NvLinkState", 0) == -NOT_SUPPORTED


LEVELS = {"internal": 0, "single": 10, "multiple": 20, "hostbridge": 30, "node": 40, "system": 50}


@pytest.mark.parametrize("word", LEVELS)
def test_what_lies_between_two_gpus(card: Card, word: str) -> None:
    card.start(T4, count=3)
    first, second, third = (card.device(index) for index in range(3))
    assert card.ask("TopologyCommonAncestor", second, device=first) == LEVELS["node"]
    card.write(T4, host={"topology": word, "topology.2-0": "single"}, count=3)
    assert card.ask("TopologyCommonAncestor", second, device=first) == LEVELS[word]
    assert card.ask("TopologyCommonAncestor", third, device=first) == LEVELS["single"]


def test_a_hung_driver_keeps_nvml_from_starting(card: Card) -> None:
    card.write(T4, host={"hang": "1"})
    begin = time.monotonic()
    assert card.library.nvmlInit_v2() == OK
    assert time.monotonic() - begin >= 1
    card.write(T4)


def test_a_missing_gpu_is_not_counted_and_leaves_no_gap(card: Card) -> None:
    card.start(T4, {2: {"temperature": "66"}}, count=3)
    before = card.device(1)
    card.write(T4, {2: {"temperature": "66"}}, {"missing": "1"}, count=3)
    count = ctypes.c_uint()
    assert card.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == OK
    assert count.value == 2
    last = card.device(1)
    assert card.ask("Temperature", 0, device=last) == 66
    assert card.ask("Index", device=last) == 1
    assert card.ask("MinorNumber", device=last) == 2
    none = ctypes.c_void_p()
    assert card.library.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(none)) == INVALID
    place = b"0000:3C:00.0"
    assert card.library.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(none)) == NOT_FOUND
    assert card.text("Name", before) == -INVALID


def test_cuda_lists_neither_a_lost_nor_a_missing_gpu(
    card: Card, library: tuple[Any, Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    card.write(T4, {0: {"lost": "1"}}, {"missing": "2"}, count=4)
    cuda = library[1]
    assert cuda.cuInit(0) == 0
    count, bus = ctypes.c_int(), ctypes.create_string_buffer(20)
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    places = []
    for ordinal in range(count.value):
        assert cuda.cuDeviceGetPCIBusId(bus, 20, ordinal) == 0
        places.append(bus.value)
    assert places == [b"0000:3C:00.0", b"0000:3E:00.0"]


class Field(ctypes.Structure):
    """nvmlFieldValue_t, its value as an unsigned long long."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


@pytest.mark.parametrize(
    ("name", "health", "field", "expected"),
    [
        (A100, {}, (190, 0), 400000),  # or nvidia-smi 535 shows 421751.38 W
        (A100, {"power_limit": "1000"}, (190, 0), 1000),
        (A100, {"power_limit": "1000"}, (189, 0), 400000),
        (A100, {}, (190, 1), -NOT_SUPPORTED),
        (A100, {}, (84, 0), 25000),  # or nvidia-smi 470 asks for ever
        (A100, {"nvlinks_down": "1"}, (165, 1), 0),
        (A100, {"nvlink_errors": "5"}, (163, 11), 5),
        (A100, {"remapped_rows": "1,2,1,0"}, (143, 0), 2),
        (A100, {"ecc_uncorrected_aggregate": "6"}, (6, 0), 6),
        (V100, {"retired_pages": "1,4,0"}, (30, 0), 4),
        (V100, {"replays": "12"}, (94, 0), 12),
        (V100, {}, (82, 0), -NOT_SUPPORTED),
        (V100, {}, (230, 0), -NOT_SUPPORTED),
        (V100, {"recovery_action": "2"}, (230, 0), 2),
    ],
)
def test_the_same_values_by_their_fields_numbers(
    card: Card, name: str, health: Mapping[str, str], field: tuple[int, int], expected: int
) -> None:
    card.start(name, {0: health})
    asked = Field(*field)
    assert card.library.nvmlDeviceGetFieldValues(card.device(), 1, ctypes.byref(asked)) == OK
    assert (-asked.result or asked.value) == expected
