"""Rules about what prevents changes of Slurm, and what Slurm has to say of other changes."""

from __future__ import annotations

from ...host import gpu_shares as share
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import gpu_workspace, slurm
from . import jobs_first, obstacles

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Changes, Facts, Options, Reasons, Row


def _seen(facts: Facts) -> dict[str, Any]:
    """What the survey found; {} where Slurm is not concerned."""
    return facts["preflight"].get("slurm") or {}


def slurm_options(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    # An inventory's literals are judged when it is rendered; these are of several hosts, or by -e.
    return [
        (fault, "correct it in the inventory; all hosts of a cluster say the same of it")
        for fault in _seen(facts).get("faults") or []
    ]


def slurm_theirs(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    theirs = _seen(facts).get("theirs")
    if not theirs:
        return []
    return [
        (
            "a Slurm that this program did not bring is configured here: {0}".format(
                ", ".join(theirs)
            ),
            "leave it as it is (slurm_state: absent), or take it away by hand first; nothing of "
            "it is overwritten",
        )
    ]


def slurm_release(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    seen = _seen(facts)
    if not seen.get("wished"):
        return []
    release = tuple(seen["release"])
    if not release:
        return [
            (
                "which Slurm this platform has is not known",
                "it is brought on Debian 11, 12 and 13, Ubuntu 22.04 and 24.04",
            )
        ]
    words = "{0}.{1:02d}".format(*release)
    if release < obstacles.CONFIGLESS:
        return [
            (
                f"Slurm {words} of this platform gets no configuration from its controller",
                "a newer release of the distribution has one that does; it is not brought here",
            )
        ]
    if seen["cgroup"] == 2 and release < obstacles.CGROUP2:
        return [
            (
                f"Slurm {words} of this platform knows cgroup v1 alone and this host runs v2, so "
                "no job could be kept to its GPUs",
                "boot it with systemd.unified_cgroup_hierarchy=0, or use a newer release of the "
                "distribution",
            )
        ]
    if seen["cgroup"] == 2 and not seen["bus"]:
        return [
            (
                "this host runs cgroup v2 and no system bus, by which Slurm asks systemd for the "
                "place of its jobs",
                "apt-get install dbus, and systemctl start dbus",
            )
        ]
    if seen["cgroup"] == 0:
        return [
            (
                "this host has no device cgroup, so no job could be kept to its GPUs",
                "in a container, give it cgroups that it may write; a kernel needs "
                "CONFIG_CGROUP_DEVICE",
            )
        ]
    return []


def slurm_jobs(facts: Facts, changes: Changes, _options: Options, _row: Row) -> Reasons:
    seen = _seen(facts)
    if seen.get("removal"):
        return [("Slurm can't go from this host: " + seen["removal"], "`squeue` shows all")]
    packages = [
        entry["item"]
        for entry in changes
        if entry["component"] == slurm.NAME and entry["to"] == "installed"
    ]
    if not packages or not seen.get("steps"):
        return []
    return [
        (
            "{0} must be installed, which may renew Slurm under {1} running job steps".format(
                ", ".join(packages), seen["steps"]
            ),
            "run again when the jobs have ended: scontrol update nodename=... state=drain lets "
            "no new one begin",
        )
    ]


def slurm_gpus(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    # As the inventory's own rule, with the number of GPUs that the host really has.
    value, count = share.promised(options), len(facts["gpus"])
    try:
        share.of_slurm(value, count)
        why = share.clash(value, list(gpu_workspace.wished_people(options).values()), count)
    except ValueError as error:
        why = str(error)
    if why is None:
        return []
    return [(why, "give Slurm a number of GPUs or a list (slurm_gpus), and workspaces the others")]


RULES = (
    *rules_of(
        slurm.NAME,
        stops={
            "slurm-options": slurm_options,
            "slurm-theirs": slurm_theirs,
            "slurm-release": slurm_release,
            "slurm-jobs": slurm_jobs,
            "slurm-gpus": slurm_gpus,
        },
    ),
    *rules_of(
        "nvidia_driver",
        stops={"slurm-silent": jobs_first.silent},
        warns={"slurm-drain": jobs_first.drained_first},
    ),
    *rules_of("gpu_workspace", stops={"workspace-slurm": slurm_gpus}),
)
