"""The verdict on a host and on each of its GPUs, from what was read; reads nothing itself."""

from __future__ import annotations

import itertools

from ..type_checking import TYPE_CHECKING
from . import figures, levels, own_word, series, topology
from .checks import (
    computing,
    condition,
    copying,
    feeding,
    kept,
    kernel,
    links,
    memory,
    presence,
    recovery,
    surroundings,
    training,
)
from .findings import ACTIONS, not_applicable, worst
from .words import SILENT

if TYPE_CHECKING:
    from typing import Any

# Of the verdict; docs/schemas/acceptance-1.json describes it.
FORMAT = 1
OF_HOST = (*presence.HOST, *surroundings.HOST, *feeding.HOST)
OF_GPU = (
    *presence.GPU, *links.GPU, *memory.GPU, *recovery.GPU, *condition.GPU, *kernel.GPU
)  # fmt: skip
# Where an acceptance has loaded the cards.
WORK_OF_HOST = (
    *feeding.WORK_HOST, *computing.HOST, *copying.HOST, *training.HOST, *kept.HOST
)  # fmt: skip
WORK_OF_GPU = (*computing.GPU, *copying.GPU, *training.GPU)
LONG_OF_GPU = computing.LONG_GPU
# What is asked of a card that does not answer.
WITHOUT_ANSWER = ("answers", "xid")


def judge(
    facts: dict[str, Any], declared: int = 0, models: dict[str, Any] | None = None
) -> dict[str, Any]:
    """{format, verdict, action, checks, gpus, pairs, sets, driver, simulated, level, ...}.

    Of a host. `facts` are machine.look's, above the level quick with work.look's as `work`.
    `declared`: how many GPUs the inventory says; 0 where it says nothing. `models`: which, as
    gpu_models.named returns it. A verdict is "ok", "degraded", "failed" or "not applicable"; what
    was only measured makes nothing well.
    """
    facts = {"declared": declared, "models": models, **facts}
    work: dict[str, Any] = facts.get("work") or {}
    if work:
        facts["nvml"] = _as_loaded(facts["nvml"], work["gpus"])
    places = {gpu["pci"]: gpu for gpu in facts["bus"]}
    nvml = _addressed(facts)
    gpus = [_gpu(gpu, facts, places.get(gpu.get("pci")) or {}) for gpu in nvml["gpus"]]
    asked = (*OF_HOST, *WORK_OF_HOST) if work else OF_HOST
    checks = [dict(check(facts), check=name) for name, check in asked]
    verdict, action = of_host(checks, gpus)
    pairs = topology.pairs(nvml, list(places))
    return {
        "format": FORMAT,
        "verdict": verdict,
        "action": action,
        "checks": checks,
        "gpus": gpus,
        "pairs": pairs,
        "sets": topology.best_sets(pairs),
        "driver": nvml["driver"],
        "simulated": facts["simulated"],
        "level": work["level"] if work else levels.QUICK,
        # Logical CPU devices were computed on, one for each GPU.
        "stand_in": work.get("kind") == "CPU",
        "tensorflow": computing.version(work),
        **({"scaling": series.scaling(work)} if work else {}),
    }


def _as_loaded(nvml: dict[str, Any], loaded: dict[str, Any]) -> dict[str, Any]:
    """NVML's answer, in which each card has the index by which work.look knows it.

    `loaded`: work.look's `gpus`. A card that falls off the bus moves the indexes of those behind
    it. Another card than was there has an index that none had.
    """
    known = {card["uuid"]: int(index) for index, card in loaded.items() if card["uuid"]}
    taken = {known.get(gpu.get("uuid")) for gpu in nvml["gpus"]}
    unused = itertools.count(max(len(loaded), len(nvml["gpus"])))
    then = {}
    for gpu in nvml["gpus"]:
        uuid, index = gpu.get("uuid"), gpu["index"]
        if uuid in known:
            then[index] = known[uuid]
        elif index in taken or (uuid and loaded.get(str(index), {}).get("uuid")):
            then[index] = next(unused)
        else:  # one of the two looks has no UUID of it: it is where it was
            then[index] = index
    pairs = {
        tuple(sorted(then[int(index)] for index in pair.split("-"))): level
        for pair, level in nvml["topology"].items()
    }
    return dict(
        nvml,
        gpus=[dict(gpu, index=then[gpu["index"]]) for gpu in nvml["gpus"]],
        topology={"{0}-{1}".format(*pair): level for pair, level in pairs.items()},
    )


def of_host(checks: list[dict[str, Any]], gpus: list[dict[str, Any]]) -> tuple[str, str]:
    """(verdict, action) of a host, from its own findings and its GPUs' verdicts."""
    verdict = worst([*checks, *({"state": gpu["verdict"]} for gpu in gpus)])
    return verdict, _action([entry for entry in [*checks, *gpus] if _state(entry) == verdict])


def of_checks(checks: list[dict[str, Any]]) -> tuple[str, str]:
    """(verdict, action) of a GPU, from its findings."""
    verdict = worst(checks)
    return verdict, _action([entry for entry in checks if entry["state"] == verdict])


def _state(entry: dict[str, Any]) -> str:
    state: str = entry.get("verdict") or entry["state"]
    return state


def _addressed(facts: dict[str, Any]) -> dict[str, Any]:
    """NVML's answer, in which each lost card has one of the bus addresses that NVML does not name.

    And what the driver wrote of the card at that address into the kernel's log.
    """
    nvml_addresses = {gpu.get("pci") for gpu in facts["nvml"]["gpus"]}
    free = [gpu for gpu in presence.here(facts) if gpu["pci"] not in nvml_addresses]
    lost = [gpu for gpu in facts["nvml"]["gpus"] if gpu["error"]]
    cards = (facts["log"] or {}).get("cards") or {}
    # Both are in the order of the bus.
    addresses = iter(free if len(free) == len(lost) else [])
    gpus = []
    for gpu in facts["nvml"]["gpus"]:
        if gpu["error"]:
            place = next(addresses, None)
            named = cards.get(place["pci"], {}) if place else {}
            gpu = dict(gpu, pci=place and place["pci"], **named)
        gpus.append(gpu)
    return dict(facts["nvml"], gpus=gpus)


def _gpu(gpu: dict[str, Any], facts: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """The verdict on one GPU, with what names it: uuid, serial, slot, address."""
    card = dict(
        {**dict.fromkeys(own_word.KEYS), **gpu},
        xids=_of(gpu, facts["log"]),
        elsewhere=_elsewhere(gpu, facts["log"]),
        alone=len(presence.here(facts)) < 2,
        like=_like(gpu, facts["nvml"]["gpus"]),
        figures=figures.figures(gpu["name"]) if gpu.get("name") else None,
    )
    checks = []
    of_gpu: tuple[Any, ...] = OF_GPU
    work = facts.get("work")
    if work:
        card["work"] = training.card_work(work, gpu["index"])
        of_gpu += WORK_OF_GPU
        if work["level"] == levels.LONG:
            of_gpu += LONG_OF_GPU
    for name, check in of_gpu:
        asked = name in WITHOUT_ANSWER or not gpu["error"]
        checks.append(dict(check(card) if asked else not_applicable(SILENT), check=name))
    verdict, action = of_checks(checks)
    return {
        "index": gpu["index"],
        **{name: gpu.get(name) for name in ("uuid", "serial", "name", "pci", "vbios", "part")},
        "slot": place.get("slot"),
        "numa_node": place.get("numa_node"),
        "verdict": verdict,
        "action": action,
        "checks": checks,
        "measured": _measured(gpu),
        **(_of_work(work, gpu["index"]) if work else {}),
    }


def _of_work(work: dict[str, Any], index: int) -> dict[str, Any]:
    return {
        "left_alone": work["skipped"].get(str(index)),
        "utilization": series.utilization(work, index),
    }


def _of(gpu: dict[str, Any], log: dict[str, Any] | None) -> list[dict[str, Any]] | None:
    """The errors of this card; None where the kernel's log can't be read."""
    return None if log is None else [xid for xid in log["xids"] if xid["pci"] == gpu["pci"]]


def _elsewhere(gpu: dict[str, Any], log: dict[str, Any] | None) -> list[list[dict[str, Any]]]:
    """The errors of each other card that had any."""
    cards: dict[str, list[dict[str, Any]]] = {}
    for xid in (log or {"xids": []})["xids"]:
        if xid["pci"] != gpu["pci"]:
            cards.setdefault(xid["pci"], []).append(xid)
    return list(cards.values())


def _like(gpu: dict[str, Any], gpus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The others of its model that answer and have an NVLink up."""
    return [
        card
        for card in gpus
        if not card["error"]
        and card["index"] != gpu["index"]
        and card["name"] == gpu.get("name")
        and links.up(card)
    ]


def _measured(gpu: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a card that a history is kept of."""
    names = ("pcie", "ecc", "rows", "pages", "temperature", "power", "clock", "memory", "fan",
             "persistence", "capability", "power_limit", "power_limit_default")  # fmt: skip
    numbers = {name: gpu.get(name) for name in names}
    # What a card's speed depends on, so that only those that are alike are compared.
    numbers["mig"] = bool((gpu.get("mig") or {}).get("mode"))
    return numbers


def _action(blamed: list[dict[str, Any]]) -> str:
    """The strongest of what is to be done."""
    return max((entry["action"] for entry in blamed), key=ACTIONS.index, default=ACTIONS[0])
