"""What a person reads of what TensorFlow did: kept in verdicts_of_work.txt."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest
from gpu_stack.acceptance import judge

from tests.unit.acceptance.test_words import described
from tests.unit.acceptance.work_edges import COMPUTING, KEPT, OF_FAULTS, STORAGE, TRAINING, Edge

GOLDEN = Path(__file__).with_name("verdicts_of_work.txt")
OF_HOST = {name for name, _ in judge.WORK_OF_HOST}
OF_GPU = {name for name, _ in (*judge.WORK_OF_GPU, *judge.LONG_OF_GPU)}
TOLD = ("verdict", "action", "level", "stand_in", "tensorflow")
EDGES = {**OF_FAULTS, **COMPUTING, **TRAINING, **KEPT, **STORAGE}
# {name: (GPUs, whether CPU devices stand in for them)}
HEALTHY = {"one GPU": (1, False), "three GPUs": (3, False), "three stand-ins": (3, True)}
PAGES = [*HEALTHY, *EDGES]


def lines(edge: Edge) -> list[str]:
    verdict = judge.judge(edge.facts())
    found = [", ".join(f"{name}: {verdict[name]}" for name in TOLD)]
    found += [described(check) for check in verdict["checks"] if check["check"] in OF_HOST]
    for gpu in verdict["gpus"]:
        found += [
            f"GPU {gpu['index']} {described(check)}"
            for check in gpu["checks"]
            if check["check"] in OF_GPU
        ]
    return found


@functools.cache
def of_healthy(count: int, simulated: bool) -> list[str]:
    return lines(Edge(lambda _: None, count, simulated))


def page(name: str) -> list[str]:
    """What an edge says that a healthy machine of its kind does not; all of a healthy one."""
    if name in HEALTHY:
        return of_healthy(*HEALTHY[name])
    ordinary = of_healthy(EDGES[name].count, EDGES[name].simulated)
    return [line for line in lines(EDGES[name]) if line not in ordinary]


@functools.cache
def golden() -> dict[str, list[str]]:
    pages = [part.splitlines() for part in GOLDEN.read_text(encoding="utf-8").split("== ")[1:]]
    return {name: [line.strip() for line in found] for name, *found in pages}


def test_every_page_is_kept() -> None:
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        text = "".join("\n  ".join([f"== {name}", *page(name)]) + "\n" for name in PAGES)
        GOLDEN.write_text(text, encoding="utf-8")
    assert list(golden()) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_what_a_person_reads_of_the_work_is_as_it_was_read(name: str) -> None:
    assert page(name) == golden()[name]
