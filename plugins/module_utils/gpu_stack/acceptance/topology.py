"""How close the GPUs of a host are to each other, and which of them to take together."""

from __future__ import annotations

import itertools

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# How good a pair is, by what lies between: one switch, several, the host bridge, the processor's
# own interconnect, the other processor's. An NVLink is worth more than any of them.
SCORES = {"X": 6, "PIX": 5, "PXB": 4, "PHB": 3, "NODE": 2, "SYS": 1}
NVLINK = 10
# Combinations are tried one by one: of 16 cards there are 12870 to take 8.
MOST = 16


def pairs(nvml: dict[str, Any]) -> dict[str, str]:
    """{"0-1": what nvidia-smi topo -m would say}: "NV4" for four NVLinks, else the level."""
    by_address = {gpu["pci"]: gpu["index"] for gpu in nvml["gpus"] if not gpu["error"]}
    links: dict[str, int] = {}
    for gpu in nvml["gpus"]:
        for link in [] if gpu["error"] else gpu["links"]:
            # Both ends tell of a link, and `topology` has the pair in one order; what is no GPU, as
            # an NVSwitch, is in no pair.
            peer = by_address.get(link["peer"])
            if link["up"]:
                pair = "{0}-{1}".format(gpu["index"], peer)
                links[pair] = links.get(pair, 0) + 1
    return {
        pair: "NV{0}".format(links[pair]) if pair in links else level or "unknown"
        for pair, level in nvml["topology"].items()
    }


def best_sets(known: dict[str, str]) -> dict[str, list[int]]:
    """{"2": [0, 1], ...}: the GPUs with the best ways between them, by how many are taken."""
    indexes = sorted({int(index) for pair in known for index in pair.split("-")})
    sets: dict[str, list[int]] = {}
    if len(indexes) > MOST:
        return sets
    for size in range(2, len(indexes) + 1):
        # Of equal ones the first, which has the lowest indexes.
        chosen = max(
            itertools.combinations(indexes, size),
            key=lambda some: [_worst(known, some), _sum(known, some)],
        )
        sets[str(size)] = list(chosen)
    return sets


def _scores(known: dict[str, str], some: tuple[int, ...]) -> list[int]:
    levels = [
        known["{0}-{1}".format(first, second)] for first, second in itertools.combinations(some, 2)
    ]
    return [
        NVLINK + int(level[2:]) if level.startswith("NV") else SCORES.get(level, 0)
        for level in levels
    ]


def _worst(known: dict[str, str], some: tuple[int, ...]) -> int:
    """A ring is as fast as its slowest part."""
    return min(_scores(known, some))


def _sum(known: dict[str, str], some: tuple[int, ...]) -> int:
    return sum(_scores(known, some))
