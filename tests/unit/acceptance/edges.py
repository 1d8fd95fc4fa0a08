"""Machines at the edges of what the checks know: drivers that do not say, values at a boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.acceptance.machines import (
    A100,
    DRAIN,
    NO_RECOVERY,
    REBOOT,
    RESET,
    Facts,
    asked_for,
    event,
    machine,
)

H100 = "NVIDIA H100 80GB HBM3"
V100 = "Tesla V100-SXM2-16GB"
RTX = "NVIDIA GeForce RTX 3090"
MUTE = (
    "ecc", "rows", "pages", "throttle", "temperature", "temperature_slowdown", "power_limit",
    "compute_mode", "mig", "utilization", "state", "processes", "recovery", "repairs", "sram",
    "banks", "unrepairable",
)  # fmt: skip


def card(change: Callable[[dict[str, Any]], object], name: str = "Tesla T4", **how: Any) -> Facts:
    """A machine with one card, changed."""
    facts = machine(name, 1, **how)
    change(facts["nvml"]["gpus"][0])
    return facts


def _mute(gpu: dict[str, Any]) -> None:
    """All that an old driver may not say."""
    gpu.update(dict.fromkeys(MUTE))
    gpu["pcie"].update(dict.fromkeys(gpu["pcie"]))


def _pcie(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda gpu: gpu["pcie"].update(values)


def _ecc(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda gpu: gpu["ecc"].update(values)


def _of(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda gpu: gpu.update(values)


def _loaded(state: int | None, utilization: int = 50) -> Facts:
    """Generation 1 of 3, in this performance state."""
    return card(
        lambda gpu: (
            gpu.update(state=state, utilization=utilization), gpu["pcie"].update(generation=1)
        )
    )  # fmt: skip


def _kernel(*numbers: int, other: int | None = None) -> Facts:
    facts = machine("Tesla T4", 2)
    facts["log"]["xids"] = [event(0, number) for number in numbers]
    if other is not None:
        facts["log"]["xids"].append(event(1, other))
    return facts


def _asked_for(*recoveries: str, other: int | None = None) -> Facts:
    """One card's Xids 154, each with another recovery, after one of another number, and then 31."""
    facts = machine("Tesla T4", 2)
    facts["log"]["xids"] = [event(0, other)] if other is not None else []
    before = NO_RECOVERY
    for recovery in recoveries:
        facts["log"]["xids"].append(asked_for(0, before, recovery))
        before = recovery
    facts["log"]["xids"].append(event(0, 31))
    return facts


def _uncounted(change: Callable[[Facts], object]) -> Facts:
    """The second of two cards is not in NVML."""
    facts = machine("Tesla T4", 2)
    facts["nvml"]["gpus"].pop()
    facts["nvml"]["topology"] = {}
    change(facts)
    return facts


def _lost_and_uncounted() -> Facts:
    """NVML has lost one of its two cards, and a third on the bus is not in it."""
    facts = machine("Tesla T4", 3)
    facts["nvml"]["gpus"] = [facts["nvml"]["gpus"][0], {"index": 1, "error": "GPU is lost"}]
    facts["nvml"]["topology"] = {}
    return facts


def _without_bus() -> Facts:
    facts = machine(count=0)
    facts["nvml"]["error"] = "driver not loaded"
    return facts


def _undriven() -> Facts:
    facts = machine("Tesla T4", 1)
    facts["nvml"] = {"error": "driver not loaded", "driver": None, "gpus": [], "topology": {}}
    return facts


def _links(name: str, down: tuple[int, ...], count: int = 2) -> Facts:
    facts = machine(name, count)
    for link in down:
        facts["nvml"]["gpus"][0]["links"][link]["up"] = False
    return facts


def _unpublished() -> Facts:
    """All NVLinks of one of two are down, of a model that is in no catalog."""
    facts = _links(A100, tuple(range(12)))
    for gpu in facts["nvml"]["gpus"]:
        gpu["name"] = "NVIDIA Made Up 1"
    return facts


def _all_links_down() -> Facts:
    """As without the fabric manager: no card shows that they could be up."""
    facts = _links(A100, tuple(range(12)))
    for link in facts["nvml"]["gpus"][1]["links"]:
        link["up"] = False
    return facts


def _unlike() -> Facts:
    """Two cards of different models with NVLinks up."""
    facts = machine(A100, 2)
    facts["nvml"]["gpus"][1]["name"] = "NVIDIA A100-SXM4-80GB"
    return facts


def _bus(**values: Any) -> Facts:
    facts = machine("Tesla T4", 2)
    facts["bus"][1].update(values)
    return facts


# More than two: of a set of texts two are in their order half of the time.
BRIDGES = [f"0000:{number}:00.0" for number in (16, 15, 14, 20, 12, 13)]


def _iommus(*kinds: str | None) -> Facts:
    facts = machine("Tesla T4", len(kinds))
    for function, kind in zip(facts["bus"], kinds, strict=True):
        function["iommu"] = kind
    return facts


def _models(models: Facts) -> Facts:
    return {**machine("Tesla T4", 2), "models": models}


def _one_of_two() -> Facts:
    """The second is an A10, without a slot's number, and NVML does not name it."""
    facts = _models({"Tesla T4": ["1eb8"]})
    facts["bus"][1].update(device="0x2236", slot=None)
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    return facts


def _shared(size: int | None) -> Facts:
    return {**machine("Tesla T4", 2), "shared_memory": size}


def edges() -> dict[str, tuple[Facts, int]]:
    """(machine, how many GPUs the inventory says) by a word for each."""
    alone: dict[str, Facts] = {
        "a driver that says nothing": card(_mute),
        "no width": card(_pcie(width=None)),
        "no possible width": card(_pcie(width_possible=None)),
        "no generation": card(_pcie(generation=None)),
        "no possible generation": card(_pcie(generation_possible=None)),
        "a slot of 8 lanes": card(lambda _: None, slot_lanes=8),
        "a slot of 8 lanes, of a card without figures": card(_of(name="x"), slot_lanes=8),
        "a name that NVML does not say": card(_of(name=None)),
        "slow in P2": _loaded(2),
        "slow in P3": _loaded(3),
        "slow in an unknown state": _loaded(None),
        "slow in P0 without work": _loaded(0, 0),
        "two NVLinks down": _links(A100, (3, 4)),
        "all NVLinks of one down": _links(A100, tuple(range(12))),
        "all NVLinks of one down, of a model without MIG": _links(V100, tuple(range(6))),
        "all NVLinks of a card without figures down": _unpublished(),
        "all NVLinks of one of two down whose bridges are optional": _links(RTX, tuple(range(4))),
        "all NVLinks of all down": _all_links_down(),
        "NVLinks that lead nowhere": _links(A100, (3,), 1),
        "NVLinks of unlike cards": _unlike(),
        "ECC off": card(_ecc(mode=0)),
        "ECC without counts": card(_ecc(uncorrected=None, corrected_ever=None)),
        "no counts of SRAM": card(_of(sram=None), A100),
        "no counts of spare rows": card(_of(banks=None), A100),
        "more banks without a spare row": card(
            _of(banks={"max": 1, "high": 2, "partial": 3, "low": 4, "none": 5}), A100
        ),
        "memory that can't be repaired, of a card that says nothing of rows": card(
            _of(rows=None, banks=None, unrepairable=1)
        ),
        "memory that can't be repaired, and a row not remapped": card(
            lambda gpu: (gpu.update(unrepairable=1), gpu["rows"].update(failed=1)), A100
        ),
        "SRAM, and errors since the driver was loaded": card(
            lambda gpu: (
                gpu["ecc"].update(uncorrected=2),
                gpu.update(sram={"exceeded": 1, "parity_ever": 5, "secded_ever": 0}),
            ),
            A100,
        ),
        "ECC off, and SRAM": card(
            lambda gpu: (gpu["ecc"].update(mode=0), gpu["sram"].update(exceeded=1)), A100
        ),
        "a driver that asks for nothing": card(_of(recovery=0)),
        "a driver that asks for what has but a name": card(_of(recovery=6)),
        "a driver that asks for a recovery between hosts": card(_of(recovery=5)),
        "a driver that asks for a system's reboot": card(_of(recovery=7)),
        "repairs of both kinds": card(_of(repairs={"channel": True, "tpc": True})),
        "a repair for which the driver asks": card(
            _of(recovery=1, repairs={"channel": True, "tpc": False})
        ),
        "63 pages": card(_of(pages={"single": 63, "double": None, "pending": 0})),
        "throttled twice": card(
            _of(throttle=["thermal slowdown", "hardware slowdown"], temperature=None)
        ),
        "at ease twice": card(_of(throttle=["idle", "power cap", "application clocks"])),
        "as hot as may be": card(_of(temperature=93)),
        "one degree less": card(_of(temperature=92)),
        "a lower power limit": card(_of(power_limit=350000), H100),
        "no default power limit": card(_of(power_limit_default=None)),
        "MIG off at the next reset": card(
            _of(mig={"mode": 1, "pending": 0, "instances": ["MIG-1"]}), A100
        ),
        "one MIG instance": card(_of(mig={"mode": 1, "pending": 1, "instances": ["MIG-1"]}), A100),
        "a display's process": card(_of(processes=[{"pid": 1, "kind": "graphics", "used": 1}])),
        "an unknown user": card(_of(processes=[{"pid": 1, "kind": "compute", "used": 1}])),
        "no permission": card(_of(error="no permission")),
        "an error without a rule": card(_of(error="IRQ issue")),
        "degraded by an Xid": _kernel(8),
        "an Xid that is in no catalog": _kernel(9999),
        "six Xids": _kernel(31, 31, 31, 31, 31, 31),
        "failed weighs more than a stronger action": _kernel(61, 46),
        "of two that failed the stronger action": _kernel(46, 79),
        "a reboot that the driver asks for no more": _asked_for(REBOOT, DRAIN),
        "what the driver asks for again": _asked_for(RESET, NO_RECOVERY, RESET),
        "an Xid of which the driver asks for nothing more": _asked_for(
            RESET, NO_RECOVERY, other=62
        ),
        "the other card's Xid": _kernel(other=79),
        "uncounted, without a slot": _uncounted(lambda facts: facts["bus"][1].update(slot=None)),
        "uncounted, without a driver": _uncounted(
            lambda facts: facts["bus"][1].update(driver=None)
        ),
        "uncounted, without a log": _uncounted(lambda facts: facts.update(log=None)),
        "uncounted, with Xids": _uncounted(
            lambda facts: facts["log"]["xids"].extend([event(1, 31), event(1, 79), event(0, 13)])
        ),
        "lost and uncounted": _lost_and_uncounted(),
        "a driver without a card": _without_bus(),
        "a card without its driver": _undriven(),
        "an IOMMU that translates": _bus(iommu="DMA-FQ"),
        "an IOMMU of several kinds": _iommus(
            "unmanaged", "identity", None, "blocked", "DMA-FQ", "auto", "DMA"
        ),
        "no IOMMU": _iommus(None, None),
        "hidden bridges": _bus(hidden=BRIDGES),
        "bridges": _bus(bridges=BRIDGES),
        "a hidden bridge and a bad one": _bus(hidden=["0000:16:00.0"], bridges=["0000:15:00.0"]),
        "little shared memory": _shared(64 * 2**20),
        "a byte more of shared memory": _shared(64 * 2**20 + 1),
        "unknown shared memory": _shared(None),
        "the models that the inventory says": _models(
            {"Tesla T4": ["1eb8"], "10de:1eb8": ["1eb8"]}
        ),
        "a model that the lock does not know": _models({"Tesla T4": ["1eb8"], "Tesla T5": None}),
        "two models that the lock does not know": _models({"Tesla T5": None, "Tesla T6": None}),
        "two models that are not there": _models(
            {"Tesla T4": ["1eb8"], "NVIDIA A10": ["2236"], "NVIDIA A16": ["25b6"]}
        ),
        "one of two cards is another": _one_of_two(),
    }
    counted = {
        "none of two on the bus": (_without_bus(), 2),
        "as many as declared": (machine("Tesla T4", 2), 2),
        "one fewer than declared": (machine("Tesla T4", 1), 2),
    }
    return {**{name: (facts, 0) for name, facts in alone.items()}, **counted}
