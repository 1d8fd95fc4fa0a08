"""How close the GPUs of a host are to each other, and which of them to take together."""

from __future__ import annotations

import itertools

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Collection

# How good a pair is, by what lies between: one switch, several, the host bridge, the processor's
# own interconnect, the other processor's. An NVLink is worth more than any of them.
SCORES = {"X": 6, "PIX": 5, "PXB": 4, "PHB": 3, "NODE": 2, "SYS": 1}
NVLINK = 10
# Combinations are tried one by one: of 16 cards there are 12870 to take 8.
MOST = 16


def pairs(nvml: dict[str, Any], bus: Collection[str]) -> dict[str, str]:
    """{"0-1": what nvidia-smi topo -m would say}: "NV4" for four NVLinks, else the level.

    bus: the addresses of the GPUs on the PCI bus. What is at the other end of a link and none of
    them is an NVSwitch, by which each GPU reaches all others with all its links.
    """
    answering = {str(gpu["index"]): gpu for gpu in nvml["gpus"] if not gpu["error"]}
    ends = {
        index: [link["peer"] for link in gpu["links"] if link["up"] and link["peer"]]
        for index, gpu in answering.items()
    }

    def way(pair: str, level: str | None) -> str:
        first, second = pair.split("-")
        number = 0
        if first in ends and second in ends:
            # Both ends tell of a link.
            number = ends[first].count(answering[second]["pci"])
            number = number or min(_elsewhere(ends[first], bus), _elsewhere(ends[second], bus))
        return "NV{0}".format(number) if number else level or "unknown"

    return {pair: way(pair, level) for pair, level in nvml["topology"].items()}


def _elsewhere(ends: list[str], bus: Collection[str]) -> int:
    return sum(end not in bus for end in ends)


def best_sets(ways: dict[str, str]) -> dict[str, list[int]]:
    """{"2": [0, 1], ...}: for each number of GPUs those with the fastest links between them."""
    indexes = sorted({int(index) for pair in ways for index in pair.split("-")})
    sets: dict[str, list[int]] = {}
    if len(indexes) > MOST:
        return sets
    for size in range(2, len(indexes) + 1):
        # Of equal ones the first, which has the lowest indexes.
        chosen = max(
            itertools.combinations(indexes, size),
            key=lambda some: [_worst(ways, some), _sum(ways, some)],
        )
        sets[str(size)] = list(chosen)
    return sets


def _scores(ways: dict[str, str], some: tuple[int, ...]) -> list[int]:
    levels = [
        ways["{0}-{1}".format(first, second)] for first, second in itertools.combinations(some, 2)
    ]
    return [
        NVLINK + int(level[2:]) if level.startswith("NV") else SCORES.get(level, 0)
        for level in levels
    ]


def _worst(ways: dict[str, str], some: tuple[int, ...]) -> int:
    """A ring is as fast as its slowest part."""
    return min(_scores(ways, some))


def _sum(ways: dict[str, str], some: tuple[int, ...]) -> int:
    return sum(_scores(ways, some))
