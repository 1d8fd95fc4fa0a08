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
    """How many hosts to process at once, as Ansible's `serial`: a number, a percentage or a list of
    them. Each batch is proven before the next one begins. Only with -e.
    """
    gpu_canary: int | str = option("", run_only=True)
    """The host to change first, alone, or how many hosts; the others follow only when it is proven.
    Only with -e.
    """
    gpu_deep: bool = option(False)
    """Hash files instead of comparing sizes, times and links. Slow; use it if you suspect damage.
    """
    gpu_look_timeout: int = option(600, example="120", reads=_seconds)
    """Timeout in seconds for one look at the host, six times as long with `gpu_deep`. A host that
    has not answered by then fails, and the run continues with the others.
    """
    gpu_step_timeout: int = option(0, example="1800", reads=_step_seconds)
    """Timeout in seconds for one task of a step that installs, changes or removes a component. A
    host where a task takes longer fails, and the run continues with the others. 0: the default of
    each kind of step: two hours to download, install or compile, one hour to remove, 15 minutes to
    write files.
    """
    gpu_platform: str = option("", looked_at=True, example="debian12")
    """The host's platform, if you know it before the host is contacted: the lock is then made for
    that platform alone, and a run refuses a host with another one. Empty: `provision discover` asks
    the host; otherwise the lock covers the Debian releases that support the requested stack, or
    Ubuntu's if there is none.
    """
    gpu_models: list[str] = option([], looked_at=True, example='["Tesla T4", "10de:20b0"]')
    """The host's GPU models, by name or PCI id, if you know them before the host is contacted: the
    lock's driver then supports them, a run refuses a host that has others, and `provision accept`
    reports another model, and a missing one, as a fault.
    """
    gpu_count: int = option(0, example="4", reads=_count)
    """How many GPUs the host must have; `provision accept` reports fewer or more as a fault. 0: as
    many as its PCI bus shows.
    """
    gpu_accept: Literal["never", "quick", "normal"] = option("never")
    """Whether every run ends with an acceptance of the host's GPUs, as `provision accept` with this
    level. A faulty GPU then makes it a failed host of the run.
    """
    gpu_accept_in_use: Literal["others", "nothing"] = option("others")
    """Which GPUs an acceptance of level normal or long, or a training, uses on a host where
    somebody computes. others: those that nobody uses. nothing: none; each GPU is reported with the
    reason, and a training is refused.
    """
    gpu_accept_patience: int = option(8, reads=_minutes)
    """Minutes after which an acceptance starts no more programs except the burn-in. A running
    program ends at its own time limit, so level normal takes at most about two minutes longer;
    skipped checks are reported as such.
    """
    gpu_accept_data_path: str = option("", example="/data", reads=_folder)
    """Directory from which the host's programs read their data: an acceptance of level normal or
    long writes an unnamed file of at most 512 MiB there and measures how fast it is read back. No
    part of the path may be a symbolic link. Empty: /var/tmp.
    """
    gpu_train_address: str = option("", example="10.1.0.11")
    """Address at which the other hosts of a training reach this one, for `provision train`. Empty:
    ansible_host, or the host's name.
    """
    gpu_train_user: str = option("", example="ada")
    """User that runs a training on the host. Empty: the user who logs in there; root only if it is
    named here.
    """
    gpu_train_folder: str = option("", example="/data/trainings", reads=_home_folder)
    """Directory for all trainings on the host, writable by that user; ~ is the user's home. Empty:
    ~/provision-train.
    """
    gpu_train_port: int = option(2222, reads=_port)
    """Port of TensorFlow's workers, the same on each host of a training. Worker 0 also needs the
    next port, for communication between the workers' supervisors.
    """
    gpu_train_communication: Literal["AUTO", "NCCL", "RING"] = option("AUTO")
    """How the workers of a training exchange gradients: with NCCL between GPUs, with RING over
    TensorFlow's own connections, or with AUTO as TensorFlow chooses.
    """
    gpu_train_restarts: int = option(10, reads=_restarts)
    """How often the workers of a training are restarted because one was killed, before the training
    counts as failed.
    """
    gpu_bundle: str = option("", looked_at=True, example="/media/stick/lab", reads=_bundle)
    """A bundle (`provision bundle`) that replaces everything the host would download: its directory
    on the host, writable only by root, or the URL of a web server that has it. Also with -e, for
    one run. Empty: everything is downloaded from its own source.
    """
    gpu_cache: str = option("", looked_at=True, example="http://cache01:8088", reads=_cache)
    """URL of the fleet's cache (role artifact_cache), through which the host downloads what the
    lock names. Empty: everything is downloaded from its own source. With gpu_bundle nothing is
    downloaded.
    """
    gpu_cache_fallback: Literal["stop", "direct"] = option("stop", looked_at=True)
    """What to do if the cache does not answer. stop: end the run of this host with a message.
    direct: download from the URLs that the lock names.
    """
    gpu_maintenance_window: str | list[str] = option(
        "", looked_at=True, example='"Sat 22:00-04:00"', reads=_window
    )
    """When the driver may be changed and the host rebooted, in the host's local time: HH:MM-HH:MM,
    optionally with days before it, or a list of these. Outside the window a run that would do
    either refuses before it changes anything. Empty: at any time.
    """
    gpu_verify: Literal["auto", "always", "never"] = option("auto")
    """When to run the checks of verify/. auto: on hosts that were changed. always: on all hosts.
    never: on none.
    """


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """The run has no identity."""
    return {}


ROLE = Role("site", SiteOptions, variables)
