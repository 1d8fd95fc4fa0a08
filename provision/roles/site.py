"""The few settings that belong to the run rather than to a component."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable
from typing import Any, Literal

from provision.collection import module_utils, stack_module
from provision.roles.base import Options, Role, Row, option


@functools.cache
def _reader() -> Callable[[object], object]:
    """The code that reads a maintenance window on the hosts."""
    path = module_utils() / "gpu_stack" / "host" / "people.py"
    read: Callable[[object], object] = runpy.run_path(str(path))["windows"]
    return read


def _window(value: object) -> str | None:
    """What is wrong with a maintenance window, or None."""
    try:
        _reader()(value)
    except ValueError as error:
        return str(error)
    return None


def _bundle(value: object) -> str | None:
    """What is wrong with the place of a bundle, or None."""
    if not value:
        return None
    bundle = stack_module("host.bundle")
    try:
        bundle.place_of(str(value))
    except bundle.UnfitError as error:
        return f"{error}: {error.hint}"
    return None


def _cache(value: object) -> str | None:
    """What is wrong with the address of a cache, or None."""
    if not value:
        return None
    cache = stack_module("host.cache")
    try:
        cache.place_of(str(value))
    except cache.UnfitError as error:
        return f"{error}: {error.hint}"
    return None


def _count(value: object) -> str | None:
    """What is wrong with a number of GPUs, or None."""
    return "a host can't have fewer than none" if isinstance(value, int) and value < 0 else None


def _minutes(value: object) -> str | None:
    """What is wrong with an acceptance's time, or None."""
    return "it must be at least 1" if isinstance(value, int) and value < 1 else None


def _folder(value: object) -> str | None:
    """What is wrong with the path of a folder, or None."""
    if not value or str(value).startswith("/"):
        return None
    return "it must be an absolute path, as /data"


def _home_folder(value: object) -> str | None:
    """What is wrong with the path of a folder that may begin with `~`, or None."""
    return None if str(value).startswith("~/") else _folder(value)


def _port(value: object) -> str | None:
    """What is wrong with a port that an ordinary user listens on, or None."""
    fits = not isinstance(value, int) or 1024 <= value <= 65534
    return None if fits else "it must be from 1024 to 65534: the next one is needed too"


def _restarts(value: object) -> str | None:
    """What is wrong with a number of restarts, or None."""
    return "0 for none" if isinstance(value, int) and value < 0 else None


def _seconds(value: object) -> str | None:
    """What is wrong with a time-out, or None. Ansible takes 0 for no limit."""
    return "a look needs a limit of at least 10" if isinstance(value, int) and value < 10 else None


def _step_seconds(value: object) -> str | None:
    """What is wrong with the time-out of a step's tasks, or None."""
    few = isinstance(value, int) and value != 0 and value < 60
    return "a task of a step needs a limit of at least 60; 0 is each step's own" if few else None


class SiteOptions(Options):
    """Public variables of site.yml."""

    gpu_serial: int | str | list[int | str] = option("100%", run_only=True)
    """How many hosts at once, as Ansible's `serial`: a number, a percentage or a list of them. Each
    batch is proven before the next one begins. Only with -e.
    """
    gpu_canary: int | str = option("", run_only=True)
    """The host that is changed first, alone, or how many; the others follow only when it is proven.
    Only with -e.
    """
    gpu_deep: bool = option(False)
    """Hash files instead of comparing sizes, times and links: slow, for suspicion."""
    gpu_look_timeout: int = option(600, example="120", reads=_seconds)
    """Seconds for one look at the host, six times as many with `gpu_deep`. A host that has not
    answered by then is a failed one, and the run goes on with the others.
    """
    gpu_step_timeout: int = option(0, example="1800", reads=_step_seconds)
    """Seconds for one task of a step that brings, changes or removes a component. A host where one
    has not ended by then is a failed one, and the run goes on with the others. 0: each kind of step
    has its own, two hours where something is fetched, installed or compiled, an hour where it is
    removed, a quarter of an hour where files are written.
    """
    gpu_platform: str = option("", looked_at=True, example="debian12")
    """The host's system, where you know it before the host is asked: the lock is then made for that
    system alone, and a run refuses a host with another. Without it `provision discover` asks, or
    the lock serves every platform that can have the wish.
    """
    gpu_models: list[str] = option([], looked_at=True, example='["Tesla T4", "10de:20b0"]')
    """The host's kinds of GPU, by name or PCI id, where you know them before the host is asked: the
    lock's driver then supports them, a run refuses a host that has others, and for `provision
    accept` another model is a fault.
    """
    gpu_count: int = option(0, example="4", reads=_count)
    """How many GPUs the host must have, for `provision accept`: fewer or more is a fault. With 0 as
    many as its PCI bus shows.
    """
    gpu_accept: Literal["never", "quick", "normal"] = option("never")
    """Whether every run ends with an acceptance of the host's GPUs, as `provision accept` with this
    level. A host with a GPU that is not well is then a failed host of the run.
    """
    gpu_accept_in_use: Literal["others", "nothing"] = option("others")
    """What an acceptance of the level normal or long loads on a host where somebody computes.
    others: its GPUs that nobody uses. nothing: none of it; each GPU is named with the reason.
    """
    gpu_accept_patience: int = option(8, reads=_minutes)
    """Minutes after which an acceptance begins no other program but the burn-in. A program that was
    begun ends by its own limit, so the level normal takes at most about two minutes longer; what
    was not asked says so.
    """
    gpu_accept_data_path: str = option("", example="/data", reads=_folder)
    """The folder from which the host's programs read their data: an acceptance of the level normal
    or long writes a file without a name there, of at most 512 MiB, and measures how fast it is read
    back. No part of the path may be a link. Empty: /var/tmp.
    """
    gpu_train_address: str = option("", example="10.1.0.11")
    """The address at which the other hosts of a training reach this one, for `provision train`.
    Empty: ansible_host, or the host's name.
    """
    gpu_train_user: str = option("", example="ada")
    """As whom a training runs on the host. Empty: who logs in there, and never root by itself."""
    gpu_train_folder: str = option("", example="/data/trainings", reads=_home_folder)
    """The folder of all trainings on the host, where that user can write; ~ is the user's home.
    Empty: ~/provision-train.
    """
    gpu_train_port: int = option(2222, reads=_port)
    """The port of TensorFlow's workers, the same on each host of a training; worker 0 needs the
    next one too, for what the workers' supervisors say to each other.
    """
    gpu_train_communication: Literal["AUTO", "NCCL", "RING"] = option("AUTO")
    """How the workers of a training exchange gradients: by NCCL between GPUs, by RING over
    TensorFlow's own connections, or as TensorFlow chooses.
    """
    gpu_train_restarts: int = option(10, reads=_restarts)
    """How often the workers of a training are started again because one was killed, before that
    counts as a failure.
    """
    gpu_bundle: str = option("", looked_at=True, example="/media/stick/lab", reads=_bundle)
    """A bundle (`provision bundle`) from which the host takes everything that it would fetch: its
    folder on the host, where root alone can write, or the address of a web server that has it. Also
    with -e, for one run. Empty: each thing comes from its own place.
    """
    gpu_cache: str = option("", looked_at=True, example="http://cache01:8088", reads=_cache)
    """Address of the fleet's cache (role artifact_cache), through which the host fetches what the
    lock names. Empty: each thing comes from its own place. With gpu_bundle nothing is fetched.
    """
    gpu_cache_fallback: Literal["stop", "direct"] = option("stop", looked_at=True)
    """What the host does where the cache does not answer. stop: the run of this host ends with a
    message. direct: it fetches from the addresses that the lock names.
    """
    gpu_maintenance_window: str | list[str] = option(
        "", looked_at=True, example='"Sat 22:00-04:00"', reads=_window
    )
    """When the driver may be changed and the host rebooted, in the host's local time: HH:MM-HH:MM
    with or without days before it, or a list of such. Outside it a run that would do either refuses
    before it touches anything. Empty: at any time.
    """
    gpu_verify: Literal["auto", "always", "never"] = option("auto")
    """When to run the checks of verify/: on hosts that were changed, on all, on none."""


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """The run has no identity."""
    return {}


ROLE = Role("site", SiteOptions, variables)
