"""What TensorFlow did on healthy machines, as acceptance/work.py returns it, and its faults.

Written by hand after what the programs print; the figures are no card's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import machine

Facts = dict[str, Any]
MIB = 2**20


def answer(**facts: Any) -> dict[str, Any]:
    return {"facts": facts, "error": None, "log": [], "silent": False}


def broken(error: str, *, silent: bool = False) -> dict[str, Any]:
    return {"facts": None, "error": error, "log": ["its last words"], "silent": silent}


def card(pci: str, kind: str) -> dict[str, Any]:
    """The answers of one healthy card, or of the logical CPU device in its place."""
    products = {
        "float32": {"error": 2e-6, "differing": 0, "tflops": 4.1},
        "float16": {"error": 1e-3 if kind == "GPU" else 3e-2, "differing": 0, "tflops": 24.0},
    }
    answers = {
        "product": answer(**products),
        "pattern": answer(bytes=12 * 1024 * MIB, wrong=0),
        "xla": answer(error=9e-7),
        "convolution": answer(error=0.0, libraries=["libcudnn.so.8"] if kind == "GPU" else []),
        "pipeline": answer(plain={"steps": 4.0, "idle": 0.6}, tuned={"steps": 18.0, "idle": 0.04}),
    }
    answers.update({name: answer(**facts) for name, facts in trained.card(kind).items()})
    if kind == "GPU":
        sizes = {"small": 400 * MIB, "large": 912 * MIB, "again": 912 * MIB}
        listed = {"version": "2.9.3", "built_with_cuda": True, "physical": 1, "addresses": [pci]}
        answers["growth"] = answer(sum=2.0, free=10 * 1024 * MIB, **sizes)
        answers["by_uuid"] = answer(**listed)
        answers["by_index"] = copy.deepcopy(answers["by_uuid"])
    return answers


def storage(**values: Any) -> dict[str, Any]:
    """As storage.measure returns it: 512 MiB in a quarter of a second, from an NVMe disk."""
    read = {"place": "/var/tmp", "kind": "nvme", "bytes": 512 * MIB, "seconds": 0.25, "wrong": 0}
    return {**read, "unfit": None, "error": None, "silent": False, **values}


def stored(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda work: work.update(storage=storage(**values))


def worked(name: str = "Tesla T4", count: int = 2, *, simulated: bool = False) -> Facts:
    """A healthy machine whose cards were all free, at the level normal."""
    facts = machine(name, count)
    facts["simulated"] = simulated
    kind = "CPU" if simulated else "GPU"
    gpus = facts["nvml"]["gpus"]
    addresses = [] if simulated else [gpu["pci"] for gpu in gpus]
    pairs = {
        f"{first}-{second}": {"wrong": 0, "rate": 9.0}
        for second in range(count)
        for first in range(second)
    }
    facts["work"] = {
        "level": "normal",
        "kind": kind,
        "missing": None,
        "skipped": {},
        "gpus": {str(gpu["index"]): {name: gpu[name] for name in ("uuid", "pci")} for gpu in gpus},
        "order": [str(gpu["index"]) for gpu in gpus],
        "host": {
            "listed": answer(
                version="2.9.3", built_with_cuda=True, physical=len(addresses), addresses=addresses
            ),
            "copies": answer(
                host=[{"wrong": 0, "to": 11.0, "back": 12.0} for _ in gpus], pairs=pairs
            ),
        },
        "cards": {str(gpu["index"]): card(gpu["pci"], kind) for gpu in gpus},
        "late": {},
        "storage": storage() if count else None,
    }
    programs = trained.host(count, kind) if count else {}
    facts["work"]["host"].update({name: answer(**each) for name, each in programs.items()})
    for given in facts["work"]["host"].values():
        given["order"] = facts["work"]["order"]
    return facts


@dataclass(frozen=True)
class WorkFault:
    """What is wrong, and the only check that is red: (check, GPU or None, state, action)."""

    change: Callable[[dict[str, Any]], None]
    red: tuple[str, int | None, str, str]
    count: int = 3
    simulated: bool = False


def facts_of(program: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    """Changes the facts of a program on card 1."""
    return lambda work: work["cards"]["1"][program]["facts"].update(values)


def product_of(kind: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda work: work["cards"]["1"]["product"]["facts"][kind].update(values)


def fails(program: str, *indexes: str) -> Callable[[dict[str, Any]], None]:
    def change(work: dict[str, Any]) -> None:
        for index in indexes:
            work["cards"][index][program] = broken("RuntimeError: no")

    return change


def out_of_memory(program: str, *, free: int) -> Callable[[dict[str, Any]], None]:
    """Card 1 has no memory for a program, though NVML says that so many bytes are free."""
    error = "ResourceExhaustedError: OOM when allocating tensor on /device:GPU:0"

    def change(work: dict[str, Any]) -> None:
        work["cards"]["1"][program] = {**broken(error), "free": free}

    return change


def once(program: str, first: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    return lambda work: work["cards"]["1"][program].update(first=first)


def of_host(program: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda work: work["host"][program]["facts"].update(values)


def wrong_copies(*exchanges: str) -> Callable[[dict[str, Any]], None]:
    """What arrives changed: "0-2" between two cards, "1" between the host and a card."""

    def change(work: dict[str, Any]) -> None:
        facts = work["host"]["copies"]["facts"]
        for exchange in exchanges:
            entry = facts["pairs"][exchange] if "-" in exchange else facts["host"][int(exchange)]
            entry["wrong"] = 7

    return change


def copied_wrong_once(work: dict[str, Any]) -> None:
    copies = work["host"]["copies"]
    first = copy.deepcopy(copies)
    first["facts"]["pairs"]["0-2"]["wrong"] = 7
    copies["first"] = first


def burnt(**values: Any) -> Callable[[dict[str, Any]], None]:
    """The level long, with other facts of card 1's burn-in."""

    def change(work: dict[str, Any]) -> None:
        work["level"] = "long"
        for index, answers in work["cards"].items():
            facts = {"seconds": 3600.0, "products": 160000, "differing": 0, "paces": [24.0] * 700}
            facts["samples"] = trained.busy(240, 100, 15.0)
            answers["burn"] = answer(**{**facts, **(values if index == "1" else {})})

    return change


OTHER = "0000:99:00.0"
WORK_FAULTS = {
    "a file comes back changed": WorkFault(stored(wrong=1), ("storage", None, "failed", "service")),
    "the disk gives an error": WorkFault(
        stored(error="Input/output error"), ("storage", None, "failed", "service")
    ),
    "the disk gives no answer": WorkFault(
        stored(error="no answer within 60 s", silent=True), ("storage", None, "degraded", "watch")
    ),
    "wrong float32": WorkFault(
        product_of("float32", error=1.5), ("product", 1, "failed", "service")
    ),
    "wrong float16": WorkFault(
        product_of("float16", error=0.05), ("product", 1, "failed", "service")
    ),
    "not a number": WorkFault(
        product_of("float32", error=float("nan")), ("product", 1, "failed", "service")
    ),
    "products differ": WorkFault(
        product_of("float16", differing=1), ("product", 1, "failed", "service")
    ),
    "a stand-in's wrong product": WorkFault(
        product_of("float16", error=0.5), ("product", 1, "failed", "service"), simulated=True
    ),
    "product ends": WorkFault(fails("product", "1"), ("product", 1, "failed", "reset")),
    "no memory on a card that is free": WorkFault(
        out_of_memory("product", free=70 * 1024 * MIB), ("product", 1, "failed", "reset")
    ),
    "wrong once": WorkFault(
        once("product", answer(float32={"error": 1.0})), ("product", 1, "degraded", "watch")
    ),
    "memory": WorkFault(facts_of("pattern", wrong=3), ("pattern", 1, "failed", "service")),
    "takes all memory": WorkFault(
        facts_of("growth", small=14000 * MIB, large=14600 * MIB, again=14600 * MIB),
        ("growth", 1, "degraded", "configure"),
    ),
    "memory grows too far": WorkFault(
        facts_of("growth", large=4000 * MIB, again=4000 * MIB),
        ("growth", 1, "degraded", "configure"),
    ),
    "memory does not grow": WorkFault(
        facts_of("growth", large=420 * MIB, again=420 * MIB),
        ("growth", 1, "degraded", "configure"),
    ),
    "memory is taken twice": WorkFault(
        facts_of("growth", again=1424 * MIB), ("growth", 1, "degraded", "configure")
    ),
    "XLA differs": WorkFault(facts_of("xla", error=0.3), ("xla", 1, "failed", "configure")),
    "XLA ends": WorkFault(fails("xla", "1"), ("xla", 1, "failed", "reset")),
    "convolution": WorkFault(
        facts_of("convolution", error=4.0), ("convolution", 1, "failed", "service")
    ),
    "starving": WorkFault(
        facts_of("pipeline", tuned={"steps": 3.0, "idle": 0.8}),
        ("pipeline", 1, "degraded", "configure"),
    ),
    "wrong after a while": WorkFault(burnt(differing=2), ("burn_in", 1, "failed", "service")),
    "slower and slower": WorkFault(
        burnt(paces=[24.0] * 500 + [16.0] * 200), ("burn_in", 1, "degraded", "service")
    ),
    "another card by UUID": WorkFault(
        facts_of("by_uuid", addresses=[OTHER]), ("visible", 1, "failed", "configure")
    ),
    "all cards by index": WorkFault(
        facts_of("by_index", addresses=[OTHER, "0000:18:00.0"]),
        ("visible", 1, "failed", "configure"),
    ),
    "no card by index": WorkFault(
        facts_of("by_index", addresses=[]), ("visible", 1, "failed", "configure")
    ),
    "not listed": WorkFault(
        of_host("listed", addresses=["0000:17:00.0", "0000:19:00.0"]),
        ("listed", None, "failed", "configure"),
    ),
    "built without CUDA": WorkFault(
        of_host("listed", addresses=[], built_with_cuda=False),
        ("listed", None, "failed", "configure"),
    ),
    "a wrong copy between two": WorkFault(
        wrong_copies("0-2"), ("copies", None, "failed", "configure")
    ),
    "a wrong copy between the only two": WorkFault(
        wrong_copies("0-1"), ("copies", None, "failed", "configure"), count=2
    ),
    "a wrong copy between two and two others": WorkFault(
        wrong_copies("0-1", "2-3"), ("copies", None, "failed", "configure"), count=4
    ),
    "a wrong copy to all": WorkFault(
        wrong_copies("0", "1"), ("copies", None, "failed", "configure"), count=2
    ),
    "a wrong copy to the only one": WorkFault(
        wrong_copies("0"), ("copies", None, "failed", "configure"), count=1
    ),
    "a wrong copy once": WorkFault(copied_wrong_once, ("copies", None, "degraded", "watch")),
    "a wrong copy to one": WorkFault(wrong_copies("1"), ("exchange", 1, "failed", "reseat")),
    "a wrong copy to one of two": WorkFault(
        wrong_copies("1", "0-1"), ("exchange", 1, "failed", "reseat"), count=2
    ),
    "a wrong copy between one and the host and each other": WorkFault(
        wrong_copies("1", "0-1", "1-2"), ("exchange", 1, "failed", "reseat")
    ),
    "a wrong copy between one and each other": WorkFault(
        wrong_copies("0-1", "1-2"), ("exchange", 1, "failed", "reseat")
    ),
    "a wrong copy between one and two of three": WorkFault(
        wrong_copies("0-1", "1-3"), ("exchange", 1, "failed", "reseat"), count=4
    ),
}
