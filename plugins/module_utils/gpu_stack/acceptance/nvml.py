"""What the driver's NVML says of every GPU, asked without nvidia-smi.

nvidia-smi takes seconds, prints what its version likes, and aborts at the first lost card. Names,
numbers and structures are those of NVIDIA's nvml.h
(https://docs.nvidia.com/deploy/nvml-api/); each was there before the oldest driver that we
install, 390, or is left out where a library lacks it.
"""

from __future__ import annotations

import contextlib
import ctypes

from ..type_checking import TYPE_CHECKING
from . import own_word

if TYPE_CHECKING:
    from typing import Any, Callable

LIBRARY = "libnvidia-ml.so.1"
# nvmlReturn_t
SUCCESS, INSUFFICIENT_SIZE = 0, 7
# The card answers nothing any more: it is lost, or needs a reset.
GONE = (15, 16)
# What a library without the function is taken to answer, as one that can't ask its card.
NOT_SUPPORTED = 3
ERRORS = {
    1: "uninitialized", 2: "invalid argument", 3: "not supported", 4: "no permission",
    6: "not found", 7: "insufficient size", 8: "insufficient power", 9: "driver not loaded",
    10: "time-out", 11: "IRQ issue", 12: "library not found", 13: "function not found",
    14: "corrupted infoROM", 15: "GPU is lost", 16: "GPU needs a reset",
    17: "operating system refuses", 18: "driver and library differ in version", 19: "in use",
    20: "out of memory", 999: "unknown error",
}  # fmt: skip
# The most links that a GPU has (H100: 18).
LINKS = 18
# {bit of the clocks' event reasons: its name}; nvmlClocksThrottleReason*
THROTTLES = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "thermal slowdown by the driver", 0x40: "thermal slowdown",
    0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
# nvmlGpuTopologyLevel_t, as nvidia-smi topo -m abbreviates them
LEVELS = {0: "X", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# A number that NVML says where it has none.
NONE = 2**64 - 1


class Pci(ctypes.Structure):
    """nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint), ("id", ctypes.c_uint), ("subsystem", ctypes.c_uint),
        ("text", ctypes.c_char * 32),
    ]  # fmt: skip

    def address(self) -> str:
        """ "0000:17:00.0", as in /sys/bus/pci/devices."""
        return "{0:04x}:{1:02x}:{2:02x}.0".format(self.domain, self.bus, self.device)


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Process(ctypes.Structure):
    """nvmlProcessInfo_v1_t, which the function without a version returns."""

    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]


class NvmlError(Exception):
    """NVML answered with an error; `code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(ERRORS.get(code, "error {0}".format(code)))
        self.code = code


class Library:
    """NVML, loaded and started. Raises OSError without it, NvmlError where it does not start."""

    def __init__(self, name: str = LIBRARY) -> None:
        self.library = ctypes.CDLL(name)
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function. Raises NvmlError unless it succeeds."""
        function: Callable[..., int] | None = getattr(self.library, name, None)
        code = NOT_SUPPORTED if function is None else function(*arguments)
        if code != SUCCESS:
            raise NvmlError(code)

    def ask(self, name: str, *arguments: Any, enough: tuple[int, ...] = (SUCCESS,)) -> bool:
        """Whether a function has filled in its arguments. Raises NvmlError for a lost GPU."""
        try:
            self.call(name, *arguments)
        except NvmlError as failure:
            if failure.code in GONE:
                raise
            return failure.code in enough
        return True

    def numbers(self, name: str, *arguments: Any, count: int = 1, kind: Any = ctypes.c_uint) -> Any:
        """The `count` numbers that a function fills in behind its arguments; None where it can't.

        A single one is no list. Raises NvmlError for a lost GPU.
        """
        values = [kind() for _turn in range(count)]
        if not self.ask(name, *arguments, *(ctypes.byref(value) for value in values)):
            return None
        result = [None if value.value == NONE else value.value for value in values]
        return result if count > 1 else result[0]

    def text(self, name: str, *arguments: Any, length: int = 96) -> str | None:
        """The text that a function fills in; None where it can't. Raises as `ask`."""
        buffer = ctypes.create_string_buffer(length)
        if not self.ask(name, *arguments, buffer, length):
            return None
        return buffer.value.decode("utf-8", "replace")


def read(name: str = LIBRARY) -> dict[str, Any]:
    """{error, driver, gpus, topology}: `error` is None, or why NVML has nothing to say.

    `gpus`: one dict a GPU that NVML counts, by `gpu`; of a lost one {index, error}. `topology`:
    {"0-1": how close the two are, as nvidia-smi topo -m abbreviates it}.
    """
    facts: dict[str, Any] = {"error": None, "driver": None, "gpus": [], "topology": {}}
    try:
        library = Library(name)
        facts["driver"] = library.text("nvmlSystemGetDriverVersion")
        count = library.numbers("nvmlDeviceGetCount_v2") or 0
    except (OSError, NvmlError) as error:
        facts["error"] = str(error)
        return facts
    handles: dict[int, ctypes.c_void_p] = {}
    for index in range(count):
        handle = ctypes.c_void_p()
        entry: dict[str, Any] = {"index": index, "error": None}
        try:
            library.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            entry.update(gpu(library, handle))
            handles[index] = handle
        except NvmlError as failure:
            entry["error"] = str(failure)
        facts["gpus"].append(entry)
    for first in handles:
        for second in handles:
            if first < second:
                level = library.numbers(
                    "nvmlDeviceGetTopologyCommonAncestor", handles[first], handles[second]
                )
                facts["topology"]["{0}-{1}".format(first, second)] = LEVELS.get(level)
    return facts


def uuids(name: str = LIBRARY) -> list[str]:
    """The UUIDs of the GPUs that NVML counts, without those that are lost; none without NVML."""
    texts = []
    try:
        library = Library(name)
        for index in range(library.numbers("nvmlDeviceGetCount_v2") or 0):
            handle = ctypes.c_void_p()
            with contextlib.suppress(NvmlError):
                library.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
                texts.append(library.text("nvmlDeviceGetUUID", handle) or "")
    except (OSError, NvmlError):
        pass
    return [uuid for uuid in texts if uuid]


def at_work(uuid: str, name: str = LIBRARY) -> list[int]:
    """Pids of the processes that compute on a GPU. Raises OSError, NvmlError without an answer."""
    return _pids(Library(name), uuid)


def at_work_on(uuids: list[str], name: str = LIBRARY) -> dict[str, list[int] | None]:
    """{UUID: pids of the processes that compute there}; None where that is not said of a GPU.

    Raises OSError, NvmlError where the library says nothing at all.
    """
    library = Library(name)
    pids_of: dict[str, list[int] | None] = {}
    for uuid in uuids:
        try:
            pids_of[uuid] = _pids(library, uuid)
        except NvmlError:
            pids_of[uuid] = None
    return pids_of


def free(uuid: str, name: str = LIBRARY) -> int | None:
    """Bytes of a GPU's memory that nobody has; None where the driver does not say it.

    Raises OSError, NvmlError without an answer.
    """
    library = Library(name)
    memory = _memory(library, _handle(library, uuid))
    return None if memory is None else memory["total"] - memory["used"]


def _handle(library: Library, uuid: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    library.call("nvmlDeviceGetHandleByUUID", uuid.encode("ascii"), ctypes.byref(handle))
    return handle


def _pids(library: Library, uuid: str) -> list[int]:
    processes = _processes(library, _handle(library, uuid))
    if processes is None:
        raise NvmlError(NOT_SUPPORTED)
    return [entry["pid"] for entry in processes if entry["kind"] == "compute"]


def gpu(library: Library, handle: ctypes.c_void_p) -> dict[str, Any]:
    """What NVML says of one GPU; None for what this card or driver can't say.

    `pcie.generation` is low on an idle card; `memory` in bytes, `power` in mW, `clock` in MHz,
    `temperature` in degrees Celsius. Raises NvmlError for a lost GPU.
    """
    pci = Pci()
    library.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))

    def number(name: str, *arguments: Any) -> Any:
        return library.numbers("nvmlDeviceGet" + name, handle, *arguments)

    def text(name: str) -> str | None:
        return library.text("nvmlDeviceGet" + name, handle)

    capability = library.numbers("nvmlDeviceGetCudaComputeCapability", handle, count=2)
    return {
        "pci": pci.address(),
        "device": "0x{0:04x}".format(pci.id >> 16),
        "name": text("Name"),
        "uuid": text("UUID"),
        "serial": text("Serial"),
        "part": text("BoardPartNumber"),
        "vbios": text("VbiosVersion"),
        "minor": number("MinorNumber"),
        "capability": capability and ".".join(str(part) for part in capability),
        "memory": _memory(library, handle),
        "pcie": {
            "generation": number("CurrPcieLinkGeneration"),
            "generation_possible": number("MaxPcieLinkGeneration"),
            "width": number("CurrPcieLinkWidth"),
            "width_possible": number("MaxPcieLinkWidth"),
            "replays": number("PcieReplayCounter"),
        },
        "ecc": _ecc(library, handle),
        "rows": _named(
            library.numbers("nvmlDeviceGetRemappedRows", handle, count=4),
            ("corrected", "uncorrected", "pending", "failed"),
        ),
        "pages": _pages(library, handle),
        "throttle": _throttle(library, handle),
        "state": number("PerformanceState"),
        "clock": number("ClockInfo", 1),
        "clock_possible": number("MaxClockInfo", 1),
        "power": number("PowerUsage"),
        "power_limit": number("EnforcedPowerLimit"),
        "power_limit_default": number("PowerManagementDefaultLimit"),
        "temperature": number("Temperature", 0),
        "temperature_shutdown": number("TemperatureThreshold", 0),
        "temperature_slowdown": number("TemperatureThreshold", 1),
        "fan": number("FanSpeed"),
        "utilization": _utilization(library, handle),
        "persistence": number("PersistenceMode"),
        "compute_mode": COMPUTE_MODES.get(number("ComputeMode")),
        "display": number("DisplayActive"),
        "mig": _mig(library, handle),
        "links": _links(library, handle),
        "processes": _processes(library, handle),
        **own_word.read(library, handle),
    }


def _named(values: list[Any] | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if values is None else {name: values[at] for at, name in enumerate(names)}


def _utilization(library: Library, handle: ctypes.c_void_p) -> int | None:
    """Per cent of the last sample's time in which a kernel ran on the card."""
    rates = (ctypes.c_uint * 2)()
    answered = library.ask("nvmlDeviceGetUtilizationRates", handle, rates)
    return int(rates[0]) if answered else None


def _memory(library: Library, handle: ctypes.c_void_p) -> dict[str, int] | None:
    memory = Memory()
    answered = library.ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return {"total": memory.total, "used": memory.used} if answered else None


def _ecc(library: Library, handle: ctypes.c_void_p) -> dict[str, Any] | None:
    """Errors since the driver was loaded and, `_ever`, since the card was made."""
    mode = library.numbers("nvmlDeviceGetEccMode", handle, count=2)
    if mode is None:
        return None
    counts = {
        name: library.numbers(
            "nvmlDeviceGetTotalEccErrors", handle, kind, counter, kind=ctypes.c_ulonglong
        )
        for name, kind, counter in (
            ("corrected", 0, 0), ("uncorrected", 1, 0),
            ("corrected_ever", 0, 1), ("uncorrected_ever", 1, 1),
        )
    }  # fmt: skip
    return dict(counts, mode=mode[0], mode_pending=mode[1])


def _pages(library: Library, handle: ctypes.c_void_p) -> dict[str, Any] | None:
    """Retired pages by cause; None where the card remaps rows instead."""
    values = [_count(library, "nvmlDeviceGetRetiredPages", handle, cause) for cause in (0, 1)]
    if values[0] is None:
        return None
    pending = library.numbers("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    return {"single": values[0], "double": values[1], "pending": pending}


def _count(library: Library, name: str, *arguments: Any) -> int | None:
    """How many entries a function that fills in a list would return; None where it can't say."""
    count = ctypes.c_uint(0)
    answered = library.ask(
        name, *arguments, ctypes.byref(count), None, enough=(SUCCESS, INSUFFICIENT_SIZE)
    )
    return count.value if answered else None


def _throttle(library: Library, handle: ctypes.c_void_p) -> list[str] | None:
    bits = library.numbers(
        "nvmlDeviceGetCurrentClocksThrottleReasons", handle, kind=ctypes.c_ulonglong
    )
    if bits is None:
        return None
    return [name for bit, name in sorted(THROTTLES.items()) if bits & bit]


def _mig(library: Library, handle: ctypes.c_void_p) -> dict[str, Any] | None:
    """{mode, pending, instances}: the UUIDs of its MIG devices; None where the card has no MIG."""
    mode = library.numbers("nvmlDeviceGetMigMode", handle, count=2)
    if mode is None:
        return None
    instances = []
    for index in range(library.numbers("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        device = ctypes.c_void_p()
        name = "nvmlDeviceGetMigDeviceHandleByIndex"
        if library.ask(name, handle, index, ctypes.byref(device)):
            instances.append(library.text("nvmlDeviceGetUUID", device))
    return {"mode": mode[0], "pending": mode[1], "instances": instances}


def _links(library: Library, handle: ctypes.c_void_p) -> list[dict[str, Any]]:
    """The NVLinks that the card has: {link, up, peer}, `peer` the other end's PCI address."""
    links = []
    for link in range(LINKS):
        up = library.numbers("nvmlDeviceGetNvLinkState", handle, link)
        if up is None:
            continue
        peer = Pci()
        name = "nvmlDeviceGetNvLinkRemotePciInfo_v2"
        answered = library.ask(name, handle, link, ctypes.byref(peer))
        links.append({"link": link, "up": bool(up), "peer": peer.address() if answered else None})
    return links


def _processes(library: Library, handle: ctypes.c_void_p) -> list[dict[str, Any]] | None:
    """{pid, kind, used} of every process with work on the card; a display's are `graphics`.

    None where it can't say who computes: that is not nobody.
    """
    processes = []
    for kind in ("Compute", "Graphics"):
        name = "nvmlDeviceGet{0}RunningProcesses".format(kind)
        room = (_count(library, name, handle) or 0) + 8
        count, infos = ctypes.c_uint(room), (Process * room)()
        if not library.ask(name, handle, ctypes.byref(count), infos):
            if kind == "Compute":
                return None
            continue
        processes += [
            {
                "pid": info.pid,
                "kind": kind.lower(),
                "used": None if info.used == NONE else info.used,
            }
            for info in infos[: count.value]
        ]
    return processes
