"""States of a host that must trip a preflight rule, each beside the nearest one that must not.

`bare_host.json` is what gpu_state's look found on a bare host of a local lab, and its lock's
stack. That host is a container, where the rules about the kernel are silent; `machine` is the same
host as a machine of its own. Neither gives a reason. A state puts one fact at the wrong side of
the rule's boundary (`trips`) or at the right one, and no other rule may answer differently. The
states of a component are in its files in `states/rules`.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_stack.plan
from check_states import fresh, mutated
from gpu_stack import preflight
from states import collected, files

HERE = Path(__file__).resolve().parent
KERNEL = "5.10.0-32-amd64"
JOB = {"pid": 4711, "user": "ada", "command": "python train.py"}
GIB = 1 << 30
PRE = "found/preflight/"
DRIVER = "found/state/nvidia_driver/"


@functools.cache
def recorded() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / "bare_host.json").read_text(encoding="utf-8"))
    return data


@fresh
def container() -> dict[str, Any]:
    """The host as it was recorded: {found, row, options}."""
    data = copy.deepcopy(recorded())
    del data["about"]
    data["found"]["lock_digest"] = "sha256:new"
    for file in files("rules"):
        if hasattr(file, "bare"):
            file.bare(data["found"])
    return {**data, "options": {}}


@fresh
def machine() -> dict[str, Any]:
    """The host as a machine of its own, with the kernel that it runs installed."""
    data = container()
    found = data["found"]
    found.update(container=False, simulated_gpu=False)
    found["state"]["nvidia_driver"].update(
        container=False, scope="full", kernels=[KERNEL], modules={KERNEL: None}
    )
    found["preflight"].update(
        secure_boot=False,
        headers={KERNEL: "offered"},
        compilers={"kernel": 10, "installed": [10], "default": 10},
    )
    return data


@dataclass(frozen=True)
class State:
    """A host with one fact at a rule's boundary; `words` are in the reason where it trips."""

    rule: str
    fact: str
    changes: dict[str, Any]
    words: tuple[str, ...] = ()
    base: Callable[[], dict[str, Any]] = machine
    # The changes of the plan that are meant, by component or item; all of them when None.
    only: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()

    @property
    def trips(self) -> bool:
        return bool(self.words)


def plan_of(data: dict[str, Any], only: tuple[str, ...] | None) -> list[dict[str, Any]]:
    changes = gpu_stack.plan.differences(data["row"], data["found"], data["options"])
    return [
        change
        for change in changes
        if only is None or {change["component"], change["item"]} & set(only)
    ]


def reasons(
    data: dict[str, Any], only: tuple[str, ...] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """{rule: its reasons}, blockers and notices alike."""
    arguments = (data["found"], plan_of(data, only), data["options"], data["row"])
    found: dict[str, list[dict[str, Any]]] = {}
    for blocker in preflight.blockers(*arguments) + preflight.warnings(*arguments):
        found.setdefault(blocker["id"], []).append(blocker)
    return found


def judged(state: State) -> list[str]:
    """What is wrong with preflight's answer to this state; empty when it is as it must be."""
    found = reasons(mutated(state.base(), state.changes), state.only)
    expected = {state.rule, *state.also} if state.trips else set(state.also)
    wrong = [f"{name} trips: {found[name]}" for name in sorted(set(found) - expected)]
    wrong += [f"{name} does not trip" for name in sorted(expected - set(found))]
    text = " ".join(f"{reason['message']} {reason['hint']}" for reason in found.get(state.rule, []))
    wrong += [f"its reason lacks {word!r}: {text}" for word in state.words if word not in text]
    wrong += ["it names no way out" for reason in found.get(state.rule, []) if not reason["hint"]]
    return wrong


@functools.cache
def states() -> tuple[State, ...]:
    order = [rule.id for rule in preflight.RULES]
    found: list[State] = collected("rules")
    return tuple(sorted(found, key=lambda state: order.index(state.rule)))


def tell() -> str:
    """What a person reads where a rule trips: the golden text."""
    stops = {rule.id: "stops" if rule.stops else "does not stop" for rule in preflight.RULES}
    lines = []
    for state in states():
        if state.trips:
            lines.append(f"{state.rule}: {state.fact}")
            for reason in reasons(mutated(state.base(), state.changes), state.only)[state.rule]:
                heading = f"{stops[state.rule]} {reason['component'] or 'the run'}"
                lines += [f"    {heading}: {reason['message']}", f"    way out: {reason['hint']}"]
    return "\n".join(lines) + "\n"
