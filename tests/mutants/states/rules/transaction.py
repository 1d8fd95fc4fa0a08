"""What apt would do beside what is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import DRIVER, PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["transaction"] = {"removed": [], "held": []}


def states() -> Iterator[State]:
    rule, apt = "unplanned-removal", PRE + "transaction"

    def answer(*removed: list[Any], held: list[Any] | None = None) -> dict[str, Any]:
        return {apt: {"removed": list(removed), "held": held or []}}

    solver = ["somebodys-solver", "1.0", ["needs libcublas11"]]
    words = (
        "remove packages for the lock's versions: somebodys-solver 1.0 (needs libcublas11)",
        "`apt-get remove somebodys-solver` if nobody needs them",
    )
    yield State(rule, "somebody's package would go", answer(solver), words)
    many = [[f"tool{number}", "2", []] for number in range(6)]
    yield State(rule, "many would go", answer(*many), ("tool3 2 and 2 more", "tool4 tool5"))
    part = ["nvidia-driver", "535.183.01-1~deb11u1", ["needs libcuda1"]]
    words = ("parts of another NVIDIA driver cannot stay", "nvidia_driver_switch: switch lets")
    yield State(rule, "parts of another driver would go", answer(part), words)
    switch: dict[str, Any] = {"options": {"nvidia_driver_switch": "switch"}}
    switch[DRIVER + "displaced"] = {part[0]: part[1]}
    yield State(rule, "the wish says to switch: they are in the plan", {**answer(part), **switch})
    named = {**answer(["cuda-drivers", "1", []]), PRE + "foreign": ["cuda-drivers"]}
    yield State(rule, "another rule names it", named, also=("foreign-driver",))
    held = answer(held=[["libxnvctrl0", "460.1-1", "470.2-1"]])
    words = ("that somebody holds: libxnvctrl0 460.1-1 to 470.2-1", "apt-mark unhold libxnvctrl0")
    yield State(rule, "a package that somebody holds would change", held, words)
    yield State(rule, "nothing would go", answer())
