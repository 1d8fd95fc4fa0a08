"""What a check is, the host that it judges, its verdict, and the list of all checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .. import cures, registered
from ..diagnose import Diagnosis

# How many packages or wheels a diagnosis names; its detail names all of them.
NAMED = 5
AGAIN = cures.RUN


@dataclass(frozen=True)
class Seen:
    """One host: the probe's answer, the lock's stack for it, and the options the checks read.

    `error` says why there is no probe. `planned`: (component, item) of each change in the host's
    plan; None without a plan.
    """

    row: dict[str, Any]
    options: dict[str, Any]
    probe: dict[str, Any]
    lock_digest: str | None = None
    error: str = ""
    planned: tuple[tuple[str, str], ...] | None = None

    @property
    def simulated(self) -> bool:
        return bool(self.probe.get("simulated_gpu"))

    @property
    def container(self) -> bool:
        return bool(self.probe.get("container"))


@dataclass(frozen=True)
class Verdict:
    """A check's result; `detail` is what it is based on."""

    result: str
    detail: str
    diagnosis: str = ""
    hint: str = ""


def passed(detail: str) -> Verdict:
    return Verdict("passed", detail)


def not_applicable(reason: str) -> Verdict:
    return Verdict("not_applicable", reason)


def failed(diagnosis: str | Diagnosis, hint: str = "", detail: str = "") -> Verdict:
    if isinstance(diagnosis, Diagnosis):
        return Verdict("failed", detail, diagnosis.message, diagnosis.hint or hint)
    return Verdict("failed", detail, diagnosis, hint)


@dataclass(frozen=True)
class Check:
    """A check with its name in reports."""

    id: str
    title: str
    judge: Callable[[Seen], Verdict] = field(repr=False)
    # Hosts for which it is false don't get this check, not even as not applicable.
    only: Callable[[Seen], bool] = field(default=lambda _seen: True, repr=False)

    def __call__(self, seen: Seen) -> Verdict:
        """The verdict on a host; without a probe only `host.answers` fails."""
        if seen.error and self.id != "host.answers":
            return not_applicable("the host did not answer")
        component = self.id.partition(".")[0]
        # What the inventory alone asks for is in no lock: `only` says who has it.
        unlocked = ("host", "receipt", *registered.UNLOCKED)
        if component not in unlocked and not seen.row.get(component):
            if component in ("cuda", "cudnn") and cuda_as_wheels(seen):
                return not_applicable("CUDA comes with TensorFlow's wheels")
            return not_applicable(f"the stack has no {component}")
        if seen.options.get(f"{component}_state") == "absent":
            return not_applicable(f"{component}_state is absent")
        verdict = self.judge(seen)
        if verdict.result != "failed":
            return verdict
        return replace(verdict, hint=cures.complete(self.id, verdict.hint, seen.planned))


CHECKS: list[Check] = []


def check(
    identifier: str, title: str, only: Callable[[Seen], bool] = lambda _seen: True
) -> Callable[[Callable[[Seen], Verdict]], Check]:
    """Registers a function in CHECKS; checks run in the order of registration."""

    def register(judge: Callable[[Seen], Verdict]) -> Check:
        registered = Check(identifier, title, judge, only)
        CHECKS.append(registered)
        return registered

    return register


def cuda_as_wheels(seen: Seen) -> bool:
    """Do CUDA and cuDNN come as wheels in TensorFlow's environment?"""
    return (seen.row.get("tensorflow") or {}).get("cuda_source") == "wheels"


def workspaces(seen: Seen) -> bool:
    """Does the inventory name workspaces for this host?"""
    return bool(seen.options.get("gpu_workspaces"))


def front_door(seen: Seen) -> bool:
    """Does the inventory name a front door for this host?"""
    return bool(seen.options.get("gpu_front_door_name"))


def cluster(seen: Seen) -> bool:
    """Does the inventory wish the host to belong to a cluster of Slurm's?"""
    return seen.options.get("slurm_state") == "present"


def some_of(wrong: list[str]) -> str:
    """The first NAMED faults, and how many more there are."""
    more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    return "; ".join(wrong[:NAMED]) + more
