"""Rules that forbid changing the driver: people and jobs on the host, GPUs it does not support."""

from __future__ import annotations

from ...host import gpu_models, people, processes
from ...rules import rules_of
from ...tables import DRIVER_BRANCHES
from ...type_checking import TYPE_CHECKING
from .. import nvidia_driver
from . import driver_method, driver_packages

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Facts, Options, Reasons, Row


def scope(host: Facts, options: Options) -> str:
    return driver_packages.resolve_scope(options, host["container"])


def _touches_driver(change: dict[str, Any], row: Row) -> bool:
    """Whether a change replaces or removes driver files that a job may use."""
    files = [*driver_packages.all_packages(row["nvidia_driver"]), nvidia_driver.RUNFILE_ITEM]
    removed = change["to"] is None and driver_method.DRIVER.match(change["item"])
    return change["component"] == "nvidia_driver" and (change["item"] in files or bool(removed))


def gpu_processes(host: Facts, changes: Changes, options: Options, row: Row) -> Reasons:
    # Those of Slurm's jobs end before anything is touched: the node is drained first.
    jobs = (host["preflight"].get("slurm_drain") or {}).get("pids") or {}
    using = host["preflight"].get("processes") or []
    running = [process for process in using if process["pid"] not in jobs]
    if not disturbs(changes, options, row):
        return []
    # With a time to wait, the role waits before it touches anything, and refuses by itself.
    if not running or options.get("nvidia_driver_wait_for_gpu_processes"):
        return []
    return [
        (
            "GPU processes run, and the driver would be changed under them: "
            + processes.in_words(running),
            "run again when they have ended, or let the run wait with "
            "nvidia_driver_wait_for_gpu_processes (seconds); none is ever ended for you",
        )
    ]


def disturbs(changes: Changes, options: Options, row: Row) -> str:
    """Which of these changes would end programs that use a GPU, in words; "" for none.

    A missing hold or pin is restored without touching the driver that a job uses.
    """
    ours = [change for change in changes if change["component"] == "nvidia_driver"]
    if replaces(ours, row):
        return "the NVIDIA driver is changed"
    reboot = options.get("nvidia_driver_reboot")
    return "the host is rebooted" if any(change["reboot"] and reboot for change in ours) else ""


def _reboots(changes: Changes, options: Options) -> bool:
    """Whether this run would reboot the host, which it never does with the one it runs on."""
    allowed = options.get("nvidia_driver_reboot") and options.get("ansible_connection") != "local"
    return bool(allowed and any(change["reboot"] for change in changes))


def replaces(changes: Changes, row: Row) -> bool:
    """Whether driver files are installed, replaced, repaired or removed."""
    return any(_touches_driver(change, row) for change in changes)


def maintenance_window(host: Facts, changes: Changes, options: Options, row: Row) -> Reasons:
    clock = host["preflight"].get("clock")
    window = options.get("gpu_maintenance_window")
    if clock is None or not (_reboots(changes, options) or replaces(changes, row)):
        return []
    try:
        if people.is_open(window, clock):
            return []
    except ValueError as error:
        hint = "correct gpu_maintenance_window, a text or a list of texts"
        return [("gpu_maintenance_window: " + str(error), hint)]
    return [
        (
            "the driver would be changed, or the host rebooted, outside the maintenance window "
            f"({people.window_words(window)}); it is {people.clock_words(clock)} on this host",
            "run again in the window, leave the driver out (--skip-tags nvidia_driver), or, for "
            "this run alone, -e gpu_maintenance_window=",
        )
    ]


def _disturbed(host: Facts, changes: Changes, options: Options, row: Row) -> tuple[str, str]:
    """(users logged in, what would happen to them); ("", "") or no event if they won't notice.

    A driver that is not loaded yet can be installed while people are logged in.
    """
    users = host["preflight"].get("users") or []
    loaded = host["state"]["nvidia_driver"].get("loaded") is not None
    event = ""
    if _reboots(changes, options):
        event = "the host would be rebooted under them"
    elif loaded and replaces(changes, row):
        event = "the loaded driver would be changed under them"
    return "; ".join(people.words(user) for user in users), event if users else ""


def logged_in(host: Facts, changes: Changes, options: Options, row: Row) -> Reasons:
    who, event = _disturbed(host, changes, options, row)
    if not event or options.get("nvidia_driver_logged_in_users", "refuse") != "refuse":
        return []
    return [
        (
            f"people are logged in, and {event}: {who}",
            "run again when they have left, or set nvidia_driver_logged_in_users: wait (for "
            "nvidia_driver_wait_for_users seconds) or ignore; nobody is ever logged out for you",
        )
    ]


def logged_in_warning(host: Facts, changes: Changes, options: Options, row: Row) -> Reasons:
    who, event = _disturbed(host, changes, options, row)
    mode = options.get("nvidia_driver_logged_in_users", "refuse")
    if not event or mode == "refuse":
        return []
    hint = "the run waits for them" if mode == "wait" else "nvidia_driver_logged_in_users is ignore"
    return [(f"people are logged in, and {event}: {who}", hint)]


def gpu_driver_window(host: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    branch = int(str(row["nvidia_driver"]["branch"]).partition(".")[0])
    reasons = []
    for name in gpu_models.generations(host["gpus"]):
        first, last = DRIVER_BRANCHES[name]
        if branch < first:
            reasons.append(
                (
                    f"a {name} GPU needs driver {first} or newer; the lock says {branch}",
                    "wish for a newer stack for this host in gpu_stack",
                )
            )
        elif last is not None and branch > last:
            reasons.append(
                (
                    f"driver {last} is the last for a {name} GPU; the lock says {branch}",
                    "wish for an older driver_branch for this host in gpu_stack",
                )
            )
    return reasons


RULES = rules_of(
    nvidia_driver.NAME,
    stops={
        "gpu-processes": gpu_processes,
        "maintenance-window": maintenance_window,
        "logged-in": logged_in,
        "gpu-driver-window": gpu_driver_window,
    },
    warns={
        "logged-in-warning": logged_in_warning,
    },
)
