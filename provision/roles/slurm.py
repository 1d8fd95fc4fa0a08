"""slurm: jobs of many people on the GPUs of many hosts, by the distribution's Slurm."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from provision.collection import module_utils, stack_module
from provision.inventory import Fault, is_template
from provision.models import Wish
from provision.roles.base import Options, Role, Row, State, option
from provision.roles.workspaces_on_hosts import people

_PACKAGE = "provision_component_slurm"
# What workspaces and models read of Slurm, whose options are undefined in a play without its role.
GPU_SHARE = (
    "{'slurm_state': slurm_state | default('absent'), 'slurm_compute': slurm_compute | "
    "default(true), 'slurm_gpus': slurm_gpus | default('all')}"
)


@functools.cache
def _module(name: str) -> ModuleType:
    """A module of the component without the package around it, which is the whole look."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(module_utils() / "gpu_stack" / "components" / "slurm")]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _reads(function: str) -> Callable[[object], str | None]:
    """What a function of the hosts' code (words.py) says is wrong with a value."""

    def fault(value: object) -> str | None:
        message: str | None = getattr(_module("words"), function)(value)
        return message

    return fault


def _share(function: str) -> Callable[..., Any]:
    """A function of the hosts' code about who gets which GPUs (gpu_shares.py)."""

    def called(*arguments: Any) -> Any:
        return getattr(stack_module("host.gpu_shares"), function)(*arguments)

    return called


def _interval(value: object) -> str | None:
    """What is wrong with the time between two health checks, or None. Slurm takes 0 for never."""
    few = isinstance(value, int) and value < 30
    return "a health check takes up to a minute; expected 30 or more" if few else None


class SlurmOptions(Options):
    """Public variables of the role."""

    slurm_state: State = option("absent", looked_at=True)
    """present: the host belongs to a Slurm cluster. absent: it does not; what earlier runs set up
    is removed, but not while a job runs on the host.
    """
    slurm_cluster: str = option("gpu", looked_at=True, reads=_reads("cluster"))
    """Name of the cluster, the same on all of its hosts. It can't be changed while the cluster
    exists.
    """
    slurm_controller: str = option("", looked_at=True, example="gpu01", reads=_reads("controller"))
    """Inventory name of the host that runs slurmctld, the same on all hosts of the cluster. It must
    be a host of this project, or of the play if the role runs alone.
    """
    slurm_compute: bool = option(True, looked_at=True)
    """Whether jobs run on this host. false: for a controller that runs no jobs."""
    slurm_address: str = option("", looked_at=True, example="10.0.0.7", reads=_reads("address"))
    """Address or name by which the cluster's other hosts reach this one. Empty: ansible_host."""
    slurm_partitions: list[dict[str, Any]] = option(
        [],
        looked_at=True,
        example='[{name: short, max_time: "4:00:00", default: true}, {name: long, priority: 1}]',
        reads=_reads("partitions"),
    )
    """Set on the controller: partitions as {name} and optionally {nodes, default, default_time,
    max_time, max_nodes, priority, groups}; the first is the default one if none says so. Empty: one
    named gpu, with all nodes.
    """
    slurm_default_time: str = option("1:00:00", looked_at=True, reads=_reads("time"))
    """Set on the controller: time limit of a job that requests none, as
    [days-]hours:minutes:seconds.
    """
    slurm_max_time: str = option("7-00:00:00", looked_at=True, reads=_reads("time"))
    """Set on the controller: maximum time limit of a job. UNLIMITED: no limit."""
    slurm_memory_reserve: int = option(2048, looked_at=True, reads=_reads("reserve"))
    """Memory of this host, in MiB, that no job gets."""
    slurm_accounting: bool = option(False, looked_at=True)
    """Set on the controller: record in a database who used which GPUs for how long (slurmdbd,
    MariaDB).
    """
    slurm_extra: list[str] = option(
        [], looked_at=True, example="[SchedulerParameters=bf_max_job_test=500]",
        reads=_reads("extra"),
    )  # fmt: skip
    """Set on the controller: additional lines of slurm.conf, as Name=Value. Settings that this
    program manages are refused.
    """
    slurm_gpus: int | str | list[int] = option(
        "all", looked_at=True, example="[2, 3]", reads=_share("fault")
    )
    """Which of this host's GPUs Slurm gives out: all, a number of them (the last ones), or a list
    of their numbers. Workspaces and served models get the others (gpu_workspaces, gpu_servings).
    """
    slurm_drain_patience: int = option(3600, looked_at=True)
    """Seconds to wait for the jobs on this node to end before the driver is changed or the host is
    rebooted; meanwhile the node takes no new jobs. After that the run refuses, and the node takes
    jobs again; no job is ever ended.
    """
    slurm_drain_reason: str = option(
        "", internal=True, planned="gpu_plan.drain.reason | default('')"
    )
    """Why a run drains this node; set by the plan."""
    slurm_health_interval: int = option(300, looked_at=True, reads=_interval)
    """Set on the controller: seconds between two health checks of a node. A node whose GPUs are not
    healthy drains itself.
    """
    slurm_patience: int = option(60)
    """Seconds to wait at the end of a run until a node is ready for jobs."""


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """No variables: Slurm is the distribution's, covered by apt's signed indices."""
    return {}


@dataclass(frozen=True)
class Cluster:
    """The rules over several variables of a host of a cluster."""

    names: tuple[str, ...] = ("slurm_state", "slurm_controller", "slurm_cluster", "slurm_address")

    def fault(
        self, values: Mapping[str, Any], _wish: Wish, _written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault, or None."""
        if values["slurm_state"] != "present" or values.get("slurm_controller"):
            return None
        return Fault(
            "slurm_state",
            "slurm_state: present, and no slurm_controller",
            expected="slurm_controller: the name of the host that runs slurmctld",
            hint="the same name on all hosts of the cluster, the controller among them",
        )


@dataclass(frozen=True)
class SharedGpus:
    """No GPU of a host is promised both to Slurm and to a workspace."""

    names: tuple[str, ...] = (
        *("slurm_state", "slurm_gpus", "slurm_compute", "gpu_workspaces", "gpu_count"),
    )

    def fault(
        self, values: Mapping[str, Any], _wish: Wish, _written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault, or None; what is a template is judged on the host."""
        if any(is_template(value) for value in values.values()):
            return None
        value = _share("promised")(values)
        try:
            persons = people(values.get("gpu_workspaces") or [])
            why = _share("clash")(value, persons, values.get("gpu_count") or 0)
        except ValueError as error:
            # What is wrong with the workspaces is their own rule's.
            why = str(error) if str(error).startswith("slurm_gpus") else None
        if why is None:
            return None
        return Fault(
            "slurm_gpus" if "slurm_gpus" in values else "gpu_workspaces",
            why,
            expected="slurm_gpus: a number of GPUs, or a list as [2, 3], and workspaces with the "
            "others",
            hint="or gpus: none in gpu_workspaces; `provision explain slurm_gpus`",
        )


ROLE = Role("slurm", SlurmOptions, variables)
