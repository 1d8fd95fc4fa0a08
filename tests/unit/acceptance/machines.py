"""Machines with GPUs as machine.look returns them: healthy ones, and what makes each sick.

Written by hand from NVIDIA's published properties of these models; not recorded from cards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What of a model matters to the checks."""

    name: str
    generation: int
    memory_mib: int
    ecc: bool = True
    rows: bool = False
    links: int = 0
    mig: bool = False
    power: int = 250000


MODELS = {
    model.name: model
    for model in (
        Model("Tesla T4", 3, 15360, power=70000),
        Model("Tesla V100-SXM2-16GB", 3, 16160, links=6, power=300000),
        Model("NVIDIA A100-SXM4-40GB", 4, 40536, rows=True, links=12, mig=True, power=400000),
        Model("NVIDIA H100 80GB HBM3", 5, 81559, rows=True, links=18, mig=True, power=700000),
        Model("NVIDIA GeForce RTX 3090", 4, 24576, ecc=False, links=4, power=350000),
        Model("NVIDIA GeForce RTX 2080 Ti", 3, 11264, ecc=False),
    )
}


_BANKS = {"max": 640, "high": 0, "partial": 0, "low": 0, "none": 0}


def address(index: int) -> str:
    return f"0000:{0x17 + index:02x}:00.0"


def machine(
    name: str = "Tesla T4",
    count: int = 2,
    *,
    bridged: tuple[tuple[int, int], ...] | None = None,
    mig: bool = False,
    busy: bool = False,
    slot_lanes: int = 16,
    newest: bool = False,
) -> Facts:
    """A healthy machine. `bridged`: pairs with NVLinks between; None where all links are up.

    `newest`: its driver, of 590, says all that it may say of a card's health itself.
    """
    model = MODELS[name]
    gpus = [_gpu(model, index, count, bridged, mig, busy, slot_lanes) for index in range(count)]
    for gpu in gpus if newest else ():
        gpu.update(_newest(model))
    levels = ("PIX", "PXB", "PHB", "NODE", "SYS")
    return {
        "bus": [_function(gpu, slot_lanes) for gpu in gpus],
        "nvml": {
            "error": None,
            "driver": "590.48.01" if newest else "550.163.01",
            "gpus": gpus,
            "topology": {
                f"{first}-{second}": levels[min(second - first - 1, 4)]
                for first, second in itertools.combinations(range(count), 2)
            },
        },
        "log": {"xids": [], "cards": {}},
        "shared_memory": 64 * 2**30,
        "cpus": cpus(),
        "simulated": False,
        "container": False,
    }


def cpus(driver: str = "intel_pstate", governor: str = "performance", **more: Any) -> Facts:
    """What a server's kernel says of its CPUs' clocks, in MHz."""
    clocks = {"now": [2100, 3400], "most": 3500, "allowed": 3500}
    return {"driver": driver, "governors": {governor: 64}, **clocks, **more}


def _function(gpu: dict[str, Any], lanes: int) -> dict[str, Any]:
    return {
        "pci": gpu["pci"],
        "device": "0x1eb8",
        "driver": "nvidia",
        "slot": str(gpu["index"] + 1),
        "numa_node": 0,
        "generation": {"now": 1, "possible": gpu["pcie"]["generation_possible"]},
        "width": {"now": lanes, "possible": lanes},
        "bridges": [],
        "hidden": [],
        "iommu": "identity",
    }


def _gpu(
    model: Model,
    index: int,
    count: int,
    bridged: tuple[tuple[int, int], ...] | None,
    mig: bool,
    busy: bool,
    lanes: int,
) -> dict[str, Any]:
    return {
        "index": index,
        "error": None,
        "pci": address(index),
        "device": "0x1eb8",
        "name": model.name,
        "uuid": f"GPU-0000000{index}-1111-2222-3333-444444444444",
        "serial": f"04210{index}",
        "part": "900-2G183-0000-001",
        "vbios": "90.04.38.00.03",
        "minor": index,
        "capability": "7.5",
        "memory": {"total": model.memory_mib * 2**20, "used": 0},
        "pcie": {
            "generation": model.generation if busy else 1,
            "generation_possible": model.generation,
            "width": lanes,
            "width_possible": lanes,
            "replays": 0,
        },
        "ecc": _ecc() if model.ecc else None,
        "rows": dict.fromkeys(("corrected", "uncorrected", "pending", "failed"), 0)
        if model.rows
        else None,
        "pages": {"single": 0, "double": 0, "pending": 0} if model.ecc and not model.rows else None,
        "throttle": ["power cap"] if busy else ["idle"],
        "state": 0 if busy else 8,
        "clock": 1500 if busy else 300,
        "clock_possible": 1590,
        "power": model.power if busy else 10000,
        "power_limit": model.power,
        "power_limit_default": model.power,
        "temperature": 71 if busy else 34,
        "temperature_shutdown": 96,
        "temperature_slowdown": 93,
        "fan": None,
        "utilization": 97 if busy else 0,
        "persistence": 1,
        "compute_mode": "default",
        "display": 0,
        "mig": {"mode": int(mig), "pending": int(mig), "instances": ["MIG-1", "MIG-2"] * mig}
        if model.mig
        else None,
        "links": _links(model, index, count, bridged),
        "processes": [{"pid": 4711, "kind": "compute", "used": 2**30, "user": "ada"}] * busy,
        "recovery": None,
        "repairs": None,
        "sram": dict.fromkeys(("exceeded", "parity_ever", "secded_ever"), 0)
        if model.rows
        else None,
        "banks": dict(_BANKS) if model.rows else None,
        "unrepairable": None,
    }


def _newest(model: Model) -> dict[str, Any]:
    said = {"recovery": 0, "repairs": {"channel": False, "tpc": False}}
    return {**said, "unrepairable": 0} if model.rows else said


def _ecc() -> dict[str, int]:
    counts = dict.fromkeys(("corrected", "uncorrected", "corrected_ever", "uncorrected_ever"), 0)
    return {**counts, "mode": 1, "mode_pending": 1}


def _links(
    model: Model, index: int, count: int, bridged: tuple[tuple[int, int], ...] | None
) -> list[dict[str, Any]]:
    if bridged is None:
        # Evenly to the others, as SXM boards have it; a lone card's lead nowhere.
        peers = [other for other in range(count) if other != index]
        return [
            {"link": link, "up": bool(peers), "peer": address(peers[link % len(peers)])}
            if peers
            else {"link": link, "up": False, "peer": None}
            for link in range(model.links)
        ]
    peer = next(
        (
            first if second == index else second
            for first, second in bridged
            if index in (first, second)
        ),
        None,
    )
    half = range(model.links // 2 or model.links)
    return [
        {
            "link": link,
            "up": peer is not None and link in half,
            "peer": address(peer) if peer is not None and link in half else None,
        }
        for link in range(model.links)
    ]


def healthy() -> dict[str, Facts]:
    """Machines on which no check may be red, by a word for each."""
    made: dict[str, Facts] = {}
    for name in MODELS:
        for count in (1, 2, 4, 8):
            made[f"{count} x {name}"] = machine(name, count)
            made[f"{count} x {name}, at work"] = machine(name, count, busy=True)
    for name in ("NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"):
        made[f"4 x {name}, MIG"] = machine(name, 4, mig=True)
    # Of an A100 in MIG mode the driver has all NVLinks down.
    made["8 x A100, one of them MIG"] = machine("NVIDIA A100-SXM4-40GB", 8)
    _unlinked(made["8 x A100, one of them MIG"])
    made["8 x A100, one of them MIG"]["nvml"]["gpus"][1]["mig"] = {
        "mode": 1, "pending": 1, "instances": ["MIG-1"]
    }  # fmt: skip
    for name in ("Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090"):
        made[f"2 x {name}, of a new driver"] = machine(name, newest=True)
    worn = machine("NVIDIA H100 80GB HBM3", 4, newest=True)
    for gpu in worn["nvml"]["gpus"]:
        # Used up in part, and below NVIDIA's thresholds.
        gpu["banks"] = {"max": 2500, "high": 57, "partial": 2, "low": 1, "none": 0}
        gpu["sram"] = {"exceeded": 0, "parity_ever": 4, "secded_ever": 2}
    made["4 x H100 that have remapped rows"] = worn
    for pairs in (((0, 1),), ((0, 1), (2, 3))):
        made[f"4 x RTX 3090, bridged {pairs}"] = machine(
            "NVIDIA GeForce RTX 3090", 4, bridged=pairs
        )
    made["2 x RTX 2080 Ti in slots of 8 lanes"] = machine(
        "NVIDIA GeForce RTX 2080 Ti", 2, slot_lanes=8
    )
    switched = machine("NVIDIA A100-SXM4-40GB", 8)
    for gpu in switched["nvml"]["gpus"]:
        for link in gpu["links"]:
            link["peer"] = f"0000:{0xC0 + link['link'] // 2:02x}:00.0"
    made["8 x A100 with NVSwitches"] = switched
    passed = machine("Tesla T4", 2)
    given = {"pci": "0000:af:00.0", "driver": "vfio-pci", "iommu": "DMA"}
    # ACS keeps a virtual machine's card apart from the others, and is wanted there.
    passed["bus"].append(passed["bus"][0] | given | {"bridges": ["0000:ae:00.0"]})
    made["a card that a virtual machine has"] = passed
    made["no GPU"] = machine(count=0)
    for words, clock in clocks().items():
        made[words] = machine(count=1)
        made[words]["cpus"] = clock
    virtual = machine("Tesla T4", 1)
    virtual["log"] = None
    virtual["shared_memory"] = None
    made["a log that can't be read"] = virtual
    programs = machine()
    programs["log"]["xids"] = [event(0, 31), event(1, 13), event(1, 43)]
    made["errors of programs"] = programs
    reset = machine()
    reset["log"]["xids"] = [asked_for(0, NO_RECOVERY, RESET), asked_for(0, RESET, NO_RECOVERY)]
    made["a reset that the driver asks for no more"] = reset
    for name, events in programs_at_fault().items():
        made[name] = machine()
        made[name]["log"]["xids"] = events
    for name, events in on_a_lone_card().items():
        made[name] = machine(count=1)
        made[name]["log"]["xids"] = events
    return made


def on_a_lone_card() -> dict[str, list[Facts]]:
    """Xids of a host's only card, which a person's one faulty program has; by a word for each.

    A healthy H100 had five processes' Xid 13 on one TPC: a program of one block runs on the same
    each time (docs/acceptance.md#errors-of-programs).
    """
    return {
        "a notebook that crashes three times on the only card": again(0, 31, 3),
        "a program of one block on the only card": again(0, 13, 5, part="GPC 1, TPC 4"),
        "a log without processes on the only card": again(0, 31, 4, pid=None),
    }


def clocks() -> dict[str, Facts | None]:
    """What hosts say of their CPUs, by a word for each; nobody is accused for any."""
    limits: Facts = {"now": [800], "allowed": 2400}
    return {
        "no cpufreq": None,
        "powersave of Intel's own": cpus(governor="powersave"),
        "powersave of AMD's own": cpus("amd-pstate-epp", "powersave"),
        "powersave of the kernel": cpus("acpi-cpufreq", "powersave", **limits),
        "powersave on some": cpus(
            "amd-pstate", governors={"schedutil": 60, "powersave": 4}, now=[400, 3000]
        ),
        "no clock is said": cpus("cppc_cpufreq", "ondemand", now=[], most=None, allowed=None),
        "no lower bound is said": cpus(allowed=None),
        "no highest clock is said": cpus(most=None, allowed=2000),
        "no driver is said": {**cpus(), "driver": None},
    }


def programs_at_fault() -> dict[str, list[Facts]]:
    """Xids that came often and accuse no card, by a word for each."""
    tpcs = [f"GPC {gpc}, TPC {tpc}" for gpc in range(2) for tpc in range(2)]
    return {
        "two tries of a faulty program": [*again(0, 31, 2), *again(0, 13, 2, part=tpcs[0])],
        "one fault in many messages": [event(0, 31, 9.0 * place) for place in range(30)],
        "one program that goes on after its faults": again(0, 31, 5, pid=4711),
        "a program that is wrong on each part of a card": sorted(
            (event for part in tpcs for event in again(0, 13, 4, part=part)),
            key=lambda event: float(event["time"]),
        ),
        "faults that name no part": again(0, 13, 9),
        "other parts each time": [
            event(0, 13, 3600.0 * hour, pid=hour, part=part) for hour, part in enumerate(tpcs)
        ],
        "a program that is wrong on each card": [*again(0, 31, 3), *again(1, 31, 3)],
        "people who stop their programs": [*again(0, 45, 20), *again(0, 43, 20)],
        "a log without times": [event(0, 31, None, pid=pid) for pid in range(9)],
    }


def event(
    index: int,
    number: int,
    time: float | None = 0,
    *,
    pid: int | None = None,
    part: str | None = None,
    own: str = "m",
) -> dict[str, Any]:
    """An Xid of the kernel's log; `time` in seconds since the first."""
    return {
        "time": None if time is None else 1764000000.0 + time,
        "pci": address(index), "number": number, "message": own, "own": own,
        "pid": pid, "part": part,
    }  # fmt: skip


NO_RECOVERY, RESET = "0x0 (None)", "0x1 (GPU Reset Required)"
REBOOT, DRAIN = "0x2 (Node Reboot Required)", "0x3 (Drain P2P)"


def asked_for(index: int, before: str, now: str) -> dict[str, Any]:
    """An Xid 154, by which the driver says which recovery it asks for now."""
    return event(index, 154, own=f"GPU recovery action changed from {before} to {now}")


def again(index: int, number: int, times: int, **words: Any) -> list[dict[str, Any]]:
    """An Xid each hour, by another process each time where `words` name none."""
    return [
        event(index, number, 3600.0 * hour, **{"pid": 100 + hour, **words}) for hour in range(times)
    ]


# the faults


@dataclass(frozen=True)
class Fault:
    """What makes a machine sick, and the only check that may be red for it."""

    check: str
    state: str
    action: str
    change: Callable[[Facts], None]
    # None: the host's own.
    gpu: int | None = 1
    model: str = "Tesla T4"
    declared: int = 0
    busy: bool = False


def _set(*path: Any, to: Any) -> Callable[[Facts], None]:
    """Sets one value of the facts."""

    def change(facts: Facts) -> None:
        place = facts
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _of_gpu(*path: Any, to: Any) -> Callable[[Facts], None]:
    return _set("nvml", "gpus", 1, *path, to=to)


def _silent(error: str, **more: Any) -> Callable[[Facts], None]:
    nothing: dict[str, Any] = {"driver": None, "gpus": [], "topology": {}}
    return _set("nvml", to={"error": error, **nothing, **more})


def _xid(number: int) -> Callable[[Facts], None]:
    return lambda facts: facts["log"]["xids"].append(event(1, number))


def _again(*events: dict[str, Any]) -> Callable[[Facts], None]:
    return lambda facts: facts["log"]["xids"].extend(events)


def _uncounted(facts: Facts) -> None:
    facts["nvml"]["gpus"].pop()
    facts["nvml"]["topology"].clear()


def _unlinked(facts: Facts) -> None:
    for link in facts["nvml"]["gpus"][1]["links"]:
        link.update(up=False, peer=None)


def _off_the_bus(facts: Facts) -> None:
    _uncounted(facts)
    facts["bus"].pop()


A100 = "NVIDIA A100-SXM4-40GB"
FAULTS = {
    "lost": Fault("answers", "failed", "reboot", _of_gpu(to={"index": 1, "error": "GPU is lost"})),
    "needs a reset": Fault(
        "answers", "failed", "reset", _of_gpu(to={"index": 1, "error": "GPU needs a reset"})
    ),
    "no power cable": Fault(
        "answers", "failed", "reseat", _of_gpu(to={"index": 1, "error": "insufficient power"})
    ),
    "NVML hangs": Fault(
        "nvml", "failed", "reboot", _silent("no answer within 60 s", hangs=True), gpu=None
    ),
    "no library": Fault("nvml", "failed", "configure", _silent("cannot open"), gpu=None),
    "other library": Fault(
        "nvml", "failed", "configure", _silent("driver and library differ in version"), gpu=None
    ),
    "NVML crashes": Fault(
        "nvml", "failed", "configure", _silent("ended without an answer (signal 11)"), gpu=None
    ),
    "not in NVML": Fault("count", "failed", "reboot", _uncounted, gpu=None),
    "off the bus": Fault("count", "failed", "reseat", _off_the_bus, gpu=None, declared=2),
    "one too many": Fault("count", "failed", "configure", lambda _: None, gpu=None, declared=1),
    "another model": Fault(
        "models", "failed", "configure", _set("models", to={"NVIDIA A100 PCIe 40GB": ["20f1"]}),
        gpu=None,
    ),
    "a model is not there": Fault(
        "models", "failed", "configure",
        _set("models", to={"Tesla T4": ["1eb8"], "NVIDIA A10": ["2236"]}), gpu=None,
    ),
    "x4": Fault("pcie_width", "degraded", "reseat", _of_gpu("pcie", "width", to=4)),
    "generation 1 under load": Fault(
        "pcie_generation", "degraded", "reseat", _of_gpu("pcie", "generation", to=1), busy=True
    ),
    "NVLink down": Fault(
        "nvlink", "degraded", "reseat", _of_gpu("links", 3, "up", to=False), model=A100
    ),
    "no NVLink up": Fault("nvlink", "degraded", "reseat", _unlinked, model=A100),
    "ECC": Fault("ecc", "failed", "reset", _of_gpu("ecc", "uncorrected", to=2)),
    "row not remapped": Fault(
        "rows", "failed", "service", _of_gpu("rows", "failed", to=1), model=A100
    ),
    "row to remap": Fault(
        "rows", "degraded", "reset", _of_gpu("rows", "pending", to=1), model=A100
    ),
    "no spare row in a bank": Fault(
        "rows", "degraded", "watch", _of_gpu("banks", to={**_BANKS, "max": 639, "none": 1}),
        model=A100,
    ),
    "unrepairable memory": Fault(
        "rows", "degraded", "service", _of_gpu("unrepairable", to=1), model=A100
    ),
    "SRAM": Fault(
        "ecc", "failed", "service",
        _of_gpu("sram", to={"exceeded": 1, "parity_ever": 0, "secded_ever": 3}), model=A100,
    ),
    "the driver asks for a reset": Fault(
        "recovery", "failed", "reset", _of_gpu("recovery", to=1)
    ),
    "the driver asks for a reboot": Fault(
        "recovery", "failed", "reboot", _of_gpu("recovery", to=2)
    ),
    "the driver asks for P2P to be drained": Fault(
        "recovery", "degraded", "watch", _of_gpu("recovery", to=3)
    ),
    "the driver asks for work to be drained": Fault(
        "recovery", "degraded", "reset", _of_gpu("recovery", to=4)
    ),
    "the driver asks for what is not known": Fault(
        "recovery", "failed", "reset", _of_gpu("recovery", to=99)
    ),
    "a channel to repair": Fault(
        "recovery", "degraded", "reset",
        _of_gpu("repairs", to={"channel": True, "tpc": False}), model=A100,
    ),
    "a TPC to repair": Fault(
        "recovery", "degraded", "reset",
        _of_gpu("repairs", to={"channel": False, "tpc": True}), model=A100,
    ),
    "pages full": Fault("pages", "failed", "service", _of_gpu("pages", "double", to=64)),
    "page to retire": Fault("pages", "degraded", "reset", _of_gpu("pages", "pending", to=1)),
    "hot": Fault("temperature", "degraded", "service", _of_gpu("temperature", to=95)),
    "thermal slowdown": Fault(
        "throttle", "degraded", "service", _of_gpu("throttle", to=["thermal slowdown"])
    ),
    "thermal slowdown by the driver": Fault(
        "throttle", "degraded", "service",
        _of_gpu("throttle", to=["idle", "thermal slowdown by the driver"]),
    ),
    "hardware slowdown": Fault(
        "throttle", "degraded", "service", _of_gpu("throttle", to=["hardware slowdown"])
    ),
    "power brake": Fault(
        "throttle", "degraded", "service", _of_gpu("throttle", to=["power brake"])
    ),
    "prohibited": Fault(
        "compute_mode", "failed", "configure", _of_gpu("compute_mode", to="prohibited")
    ),
    "MIG without instances": Fault(
        "mig", "failed", "configure",
        _of_gpu("mig", to={"mode": 1, "pending": 1, "instances": []}), model=A100,
    ),
    "MIG at the next reset": Fault(
        "mig", "degraded", "reset",
        _of_gpu("mig", to={"mode": 0, "pending": 1, "instances": []}), model=A100,
    ),
    "Xid 79": Fault("xid", "failed", "reboot", _xid(79)),
    "Xid 13 of several programs on one TPC": Fault(
        "xid", "degraded", "watch", _again(*again(1, 13, 3, part="GPC 1, TPC 3"))
    ),
    "Xid 31 of several programs on one card": Fault(
        "xid", "degraded", "watch", _again(event(0, 31), *again(1, 31, 6), event(1, 45, 9e4))
    ),
    "ACS": Fault(
        "acs", "degraded", "configure", _set("bus", 1, "bridges", to=["0000:16:00.0"]), None
    ),
    "/dev/shm": Fault(
        "shared_memory", "degraded", "configure", _set("shared_memory", to=64 * 2**20), None
    ),
}  # fmt: skip
