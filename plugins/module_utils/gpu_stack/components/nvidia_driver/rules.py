"""What forbids changing the driver: those who use the host now, and GPUs that it does not drive."""

from ...host import gpu_models, people
from ...rules import Rule
from ...tables import DRIVER_BRANCHES
from .. import nvidia_driver
from . import driver_method, driver_packages


def scope(found, options):
    return driver_packages.resolve_scope(options, found["container"])


def _touches_driver(one, row):
    """True of a change that puts other files in the place of the driver that a job uses."""
    files = [*driver_packages.all_packages(row["nvidia_driver"]), nvidia_driver.RUNFILE_ITEM]
    removed = one["to"] is None and driver_method.DRIVER.match(one["item"])
    return one["component"] == "nvidia_driver" and (one["item"] in files or bool(removed))


def gpu_processes(found, changes, options, row):
    running = found["preflight"].get("processes")
    # A missing hold or pin is put right without touching the driver that the job uses.
    reboot = options.get("nvidia_driver_reboot")
    ours = [one for one in changes if one["component"] == "nvidia_driver"]
    if not replaces(ours, row) and not any(one["reboot"] and reboot for one in ours):
        return []
    # With a time to wait, the role waits before it touches anything, and refuses by itself.
    if not running or options.get("nvidia_driver_wait_for_gpu_processes"):
        return []
    who = "; ".join(
        "pid {0} of {1}: {2}".format(one["pid"], one["user"], one["command"]) for one in running
    )
    return [
        (
            "GPU processes run, and the driver would be changed under them: " + who,
            "run again when they have ended, or let the run wait with "
            "nvidia_driver_wait_for_gpu_processes (seconds); none is ever ended for you",
        )
    ]


def _reboots(changes, options):
    """True where this run would reboot the host: one that Ansible runs on can't be."""
    allowed = options.get("nvidia_driver_reboot") and options.get("ansible_connection") != "local"
    return bool(allowed and any(one["reboot"] for one in changes))


def replaces(changes, row):
    """True where the driver's files are put there, exchanged, repaired or removed."""
    return any(_touches_driver(one, row) for one in changes)


def maintenance_window(found, changes, options, row):
    clock = found["preflight"].get("clock")
    given = options.get("gpu_maintenance_window")
    if clock is None or not (_reboots(changes, options) or replaces(changes, row)):
        return []
    try:
        if people.is_open(given, clock):
            return []
    except ValueError as error:
        hint = "correct gpu_maintenance_window, a text or a list of texts"
        return [("gpu_maintenance_window: " + str(error), hint)]
    return [
        (
            "the driver would be changed, or the host rebooted, outside the maintenance window "
            "({0}); it is {1} on this host".format(
                people.window_words(given), people.clock_words(clock)
            ),
            "run again in the window, leave the driver out (--skip-tags nvidia_driver), or, for "
            "this run alone, -e gpu_maintenance_window=",
        )
    ]


def _disturbed(found, changes, options, row):
    """(those who are logged in, what would happen to them); nothing where they won't notice.

    A driver that nothing has loaded yet can be installed beside any shell.
    """
    present = found["preflight"].get("users") or []
    loaded = found["state"]["nvidia_driver"].get("loaded") is not None
    what = ""
    if _reboots(changes, options):
        what = "the host would be rebooted under them"
    elif loaded and replaces(changes, row):
        what = "the loaded driver would be changed under them"
    return "; ".join(people.words(one) for one in present), what if present else ""


def logged_in(found, changes, options, row):
    who, what = _disturbed(found, changes, options, row)
    if not what or options.get("nvidia_driver_logged_in_users", "refuse") != "refuse":
        return []
    return [
        (
            "people are logged in, and {0}: {1}".format(what, who),
            "run again when they have left, or set nvidia_driver_logged_in_users: wait (for "
            "nvidia_driver_wait_for_users seconds) or ignore; nobody is ever logged out for you",
        )
    ]


def logged_in_told(found, changes, options, row):
    who, what = _disturbed(found, changes, options, row)
    mode = options.get("nvidia_driver_logged_in_users", "refuse")
    if not what or mode == "refuse":
        return []
    hint = "the run waits for them" if mode == "wait" else "nvidia_driver_logged_in_users is ignore"
    return [("people are logged in, and {0}: {1}".format(what, who), hint)]


def gpu_driver_window(found, _changes, _options, row):
    branch = int(str(row["nvidia_driver"]["branch"]).split(".")[0])
    reasons = []
    for name in gpu_models.generations(found["gpus"]):
        first, last = DRIVER_BRANCHES[name]
        if branch < first:
            reasons.append(
                (
                    "a {0} GPU needs driver {1} or newer; the lock says {2}".format(
                        name, first, branch
                    ),
                    "wish for a newer stack for this host in gpu_stack",
                )
            )
        elif last is not None and branch > last:
            reasons.append(
                (
                    "driver {0} is the last for a {1} GPU; the lock says {2}".format(
                        last, name, branch
                    ),
                    "wish for an older driver_branch for this host in gpu_stack",
                )
            )
    return reasons


RULES = (
    Rule("gpu-processes", nvidia_driver.NAME, True, gpu_processes),
    Rule("maintenance-window", nvidia_driver.NAME, True, maintenance_window),
    Rule("logged-in", nvidia_driver.NAME, True, logged_in),
    Rule("logged-in-told", nvidia_driver.NAME, False, logged_in_told),
    Rule("gpu-driver-window", nvidia_driver.NAME, True, gpu_driver_window),
)
