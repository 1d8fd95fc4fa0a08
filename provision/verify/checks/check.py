"""What a check is: a host as it was seen, a verdict, and the list in which checks are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .. import cures
from ..diagnose import Diagnosis

# So many packages or wheels are named in a diagnosis; all of them stand in its detail.
NAMED = 5
AGAIN = cures.RUN


@dataclass(frozen=True)
class Seen:
    """One host: the probe's answer, the lock's stack for it, and the options that matter here.

    `error` says why there is no probe. `simulated` and `container` come from the probe or the run.
    `planned`: (component, item) of what the plan has for this host; None where nobody looked.
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
    """A check's answer; `detail` is what was seen."""

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
    """A check with the name it has in reports."""

    id: str
    title: str
    judge: Callable[[Seen], Verdict] = field(repr=False)
    # Of hosts with another kind of stack it is not asked: to say so would be no news there.
    only: Callable[[Seen], bool] = field(default=lambda _seen: True, repr=False)

    def __call__(self, seen: Seen) -> Verdict:
        """The verdict; without a probe only the first check says so, once."""
        if seen.error and self.id != "host.answers":
            return not_applicable("the host did not answer")
        component = self.id.partition(".")[0]
        # The inventory's, and in no lock.
        if component == "gpu_workspace" and not workspaces(seen):
            return not_applicable("nobody has a workspace here")
        if component == "gpu_front_door" and not front_door(seen):
            return not_applicable("there is no front door here")
        unlocked = ("host", "receipt", "gpu_workspace", "gpu_front_door")
        if component not in unlocked and not seen.row.get(component):
            if component in ("cuda", "cudnn") and cuda_as_wheels(seen):
                return not_applicable("CUDA comes with TensorFlow's wheels")
            return not_applicable(f"the stack has no {component}")
        if seen.options.get(f"{component}_state") == "absent":
            return not_applicable("it was wished away")
        verdict = self.judge(seen)
        if verdict.result != "failed":
            return verdict
        return replace(verdict, hint=cures.told(self.id, verdict.hint, seen.planned))


CHECKS: list[Check] = []


def check(
    identifier: str, title: str, only: Callable[[Seen], bool] = lambda _seen: True
) -> Callable[[Callable[[Seen], Verdict]], Check]:
    """Adds a function to CHECKS, in the order in which they are read."""

    def register(judge: Callable[[Seen], Verdict]) -> Check:
        made = Check(identifier, title, judge, only)
        CHECKS.append(made)
        return made

    return register


def cuda_as_wheels(seen: Seen) -> bool:
    """Do CUDA and cuDNN lie in TensorFlow's own environment?"""
    return (seen.row.get("tensorflow") or {}).get("cuda_source") == "wheels"


def workspaces(seen: Seen) -> bool:
    """Has anybody a workspace on this host?"""
    return bool(seen.options.get("gpu_workspaces"))


def front_door(seen: Seen) -> bool:
    """Is there to be a front door on this host?"""
    return bool(seen.options.get("gpu_front_door_name"))


def some_of(wrong: list[str]) -> str:
    """The first few of many faults, and how many more there are."""
    more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    return "; ".join(wrong[:NAMED]) + more
