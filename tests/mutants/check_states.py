"""States of a host that must turn a check red: a proven host with one fact made wrong.

`proven_host.json` is what probe.py answered on a proven host of a local lab, and its lock's stack.
That host is a container with a simulated GPU, so four checks don't apply to it; `machine` is the
same host with what a container can't show as a machine with a T4 shows it. There everything passes.

Each state names the check that guards the fact, the words its diagnosis must hold, and, where
that can't be otherwise, the checks that turn red too (`also`) or can no longer be made (`silent`).
No other check may change its answer: one cause, one failure. The
states of a component are in its file in `states/checks`.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from states import collected

from provision.verify.checks import CHECKS, Check, Seen, Verdict

HERE = Path(__file__).resolve().parent
BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}
# What the recorded host, a container with a simulated GPU, can't show.
NOT_RECORDED = (
    "nvidia_driver.version",
    "nvidia_driver.module",
    "nvidia_driver.library",
    "tensorflow.computes",
)
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PROC_VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024
GCC version:  gcc version 10.2.1 20210110 (Debian 10.2.1-6)
"""


@functools.cache
def recorded() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / "proven_host.json").read_text(encoding="utf-8"))
    return data


def fresh(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Every call has a host of its own; copying by pickle is ten times as quick as by hand."""
    kept = functools.cache(lambda: pickle.dumps(make()))
    made: Callable[[], dict[str, Any]] = functools.wraps(make)(lambda: pickle.loads(kept()))  # noqa: S301
    return made


@fresh
def proven() -> dict[str, Any]:
    """The host as it was recorded: {probe, row, options, lock_digest}."""
    data = copy.deepcopy(recorded())
    del data["about"]
    return data


@fresh
def machine() -> dict[str, Any]:
    """The host as a machine of its own with two T4 shows itself: every check passes."""
    data = proven()
    probe = data["probe"]
    probe.update(container=False, simulated_gpu=False)
    probe["module"] = {"proc": PROC_VERSION, "sys": "470.256.02", "nouveau": False}
    probe["libcuda"] = library(LIBRARIES + "nvidia/current/libcuda.so.470.256.02", "libcuda1")
    for name, version in data["row"]["nvidia_driver"]["packages"]["kernel"].items():
        probe["packages"][name] = {"version": version, "status": "hi"}
    device = "/job:localhost/replica:0/task:0/device:GPU:"
    probe["tensorflow"]["computes"] = {
        "rc": 0,
        "log": "",
        "devices": {f"/device:GPU:{n}": {"on": f"{device}{n}", "error": 0.0} for n in range(2)},
    }
    # A display card has an audio function, which is no GPU.
    probe["pci"].append({"address": "0000:3c:00.1", "class": "0x040300", "device": "0x10f8"})
    return data


def said(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    """A command's answer."""
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def library(path: str, owner: str | None, **more: Any) -> dict[str, Any]:
    """A library that the loader finds."""
    found = {"loaded": path, "real": path, "error": None, "cached": path, "cached_real": path}
    return found | {"owner": owner, "answer": None} | more


def absent(soname: str, **more: Any) -> dict[str, Any]:
    """A library that the loader does not find, in its own words."""
    error = f"OSError: {soname}: cannot open shared object file: No such file or directory"
    return dict.fromkeys(library("", None), None) | {"error": error} | more


@dataclass(frozen=True)
class State:
    """A proven host with one fact made wrong.

    `changes` are paths below probe, row, options or lock_digest, with what is put there: a value,
    or a function of the value that is there; GONE takes it away.
    """

    check: str
    fact: str
    changes: dict[str, Any]
    words: tuple[str, ...]
    also: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    # No way out is known of what no rule knows.
    cure: bool = True
    # A container is not judged by it: its kernel and its PCI bus are not its own.
    machine_only: bool = False
    base: Callable[[], dict[str, Any]] = field(default=machine, repr=False)

    def seen(self, base: Callable[[], dict[str, Any]] | None = None) -> Seen:
        return seen_of(mutated((base or self.base)(), self.changes))


GONE = object()


def mutated(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The data with these changes; a path that is not there is an error: it would test nothing."""
    for path, value in changes.items():
        *parents, last = path.split("/") if not path.startswith("/") else ("", path)
        place = data
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if isinstance(place, list):
            last = int(last)
        elif last not in place and last not in ("missing", "error"):
            raise KeyError(path)
        if value is GONE:
            del place[last]
        else:
            place[last] = value(place[last]) if callable(value) else value
    return data


def seen_of(data: dict[str, Any]) -> Seen:
    return Seen(
        data["row"], data["options"], data["probe"], data["lock_digest"], data.get("error", "")
    )


def verdicts(seen: Seen) -> dict[str, Verdict]:
    """What every check says of a host."""
    return {check.id: check(seen) for check in CHECKS if check.only(seen)}


def of_component(component: str, data: dict[str, Any]) -> dict[str, Verdict]:
    """What a component's checks say of a host."""
    found = verdicts(seen_of(data))
    return {name: state for name, state in found.items() if name.startswith(f"{component}.")}


@functools.cache
def verdicts_before(base: Callable[[], dict[str, Any]]) -> dict[str, Verdict]:
    """What every check says of a host with which nothing is wrong."""
    return verdicts(seen_of(base()))


def package_states(
    check: str, wanted: dict[str, str], machine_only: tuple[str, ...] = ()
) -> Iterator[State]:
    """Every locked package in another version, and one in each other state dpkg knows."""
    for name, version in sorted(wanted.items()):
        yield State(
            check,
            f"{name} in another version",
            {f"probe/packages/{name}/version": version + "+b1"},
            (f"{name} is {version}+b1, the lock's is {version}", "run the playbook again"),
            machine_only=name in machine_only,
        )
    name = min(wanted)
    for status, word in (
        ("un", "is not installed"),
        ("rc", "is not installed"),
        ("hF", "is half installed (hF)"),
        ("iU", "is half installed (iU)"),
        ("iH", "is half installed (iH)"),
    ):
        changes = {f"probe/packages/{name}/status": status}
        yield State(check, f"a package in state {status}", changes, (f"{name} {word}",))
    changes = {f"probe/packages/{name}": GONE}
    yield State(check, "a package dpkg does not know", changes, (f"{name} is not installed",))


@functools.cache
def states() -> tuple[State, ...]:
    """All of them, in the order in which the checks are read."""
    order = list(BY_ID)
    found: list[State] = collected("checks")
    return tuple(sorted(found, key=lambda state: order.index(state.check)))


def judged(state: State, base: Callable[[], dict[str, Any]] | None = None) -> list[str]:
    """What is wrong with the checks' answers to this state; empty when they are as they must be."""
    before, after = verdicts_before(base or state.base), verdicts(state.seen(base))
    wrong = []
    own = after[state.check]
    if own.result != "failed":
        return [f"{state.check} says {own.result}"]
    text = f"{own.diagnosis} {own.hint}"
    wrong += [f"its diagnosis lacks {word!r}: {text}" for word in state.words if word not in text]
    if state.cure and not own.hint:
        wrong.append("it names no cure")
    expected = dict.fromkeys(state.also, "failed") | dict.fromkeys(state.silent, "not_applicable")
    for name, verdict in after.items():
        if name == state.check:
            continue
        old = before[name].result
        want = old if old == "not_applicable" else expected.get(name, old)
        if verdict.result != want:
            wrong.append(f"{name} says {verdict.result}, not {want}: {verdict.diagnosis}")
    return wrong


def tell(states_told: tuple[State, ...] | None = None) -> str:
    """What a person reads of every state: the golden text, and a page of the documentation."""
    lines = []
    for state in states_told or states():
        verdict = verdicts(state.seen())[state.check]
        lines.append(f"{state.check}: {state.fact}")
        lines.append(f"    {verdict.diagnosis}")
        lines += [f"    cure: {verdict.hint}"] if verdict.hint else []
        lines += [f"    seen: {verdict.detail}"] if verdict.detail else []
    return "\n".join(lines) + "\n"
