"""Rules about what prevents changes of Slurm, and what Slurm has to say of other changes."""

from __future__ import annotations

from ...change import is_touched
from ...host import gpu_shares as share
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving, gpu_workspace, slurm
from ..gpu_serving import wished as of_models
from ..gpu_workspace import obstacles as of_workspaces
from ..gpu_workspace.program import people_list
from . import jobs_first, obstacles

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Reasons, Row

LEAVE = "slurm_compute: false frees them when a run takes the node away: run with the tag slurm too"


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


def slurm_controller(facts: Facts, _changes: Changes, options: Options, _row: Row) -> Reasons:
    former = _seen(facts).get("controller")
    return [obstacles.moved(former, options)] if former else []


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
        what = (
            "this host can't stop being a node"
            if seen["wished"]
            else "Slurm can't go from this host"
        )
        return [(what + ": " + seen["removal"], "`squeue` shows all")]
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


def slurm_gpus(facts: Facts, changes: Changes, options: Options, _row: Row) -> Reasons:
    models = people_list.takers_of(list(of_models.models(options).values()))
    value = share.promised(options)
    promised_twice = _promised_twice(facts, value, [*_people(options), *models])
    return promised_twice or _held_by_others(facts, changes, options)


def workspace_slurm(facts: Facts, changes: Changes, options: Options, _row: Row) -> Reasons:
    stays = slurm.still_computes(facts, changes)
    reasons = _promised_twice(facts, share.promised(options, stays), _people(options))
    return [(why, LEAVE if stays else hint) for why, hint in reasons]


def _people(options: Options) -> list[dict[str, Any]]:
    return list(gpu_workspace.wished_people(options).values())


def _promised_twice(facts: Facts, value: Any, takers: list[dict[str, Any]]) -> Reasons:
    # As the inventory's own rule, with the number of GPUs that the host really has.
    count = len(facts["gpus"])
    try:
        share.of_slurm(value, count)
        why = share.clash(value, takers, count)
    except ValueError as error:
        why = str(error)
    if why is None:
        return []
    hint = (
        "give Slurm a number of GPUs or a list (slurm_gpus), and workspaces and models the others"
    )
    return [(why, hint)]


def _held_by_others(facts: Facts, changes: Changes, options: Options) -> Reasons:
    """GPUs of Slurm that others have, and keep: those who asked for a number, or by UUID."""
    held: dict[str, Any] = {}
    # With a workspace's change its role gives everybody anew what Slurm leaves.
    if not is_touched(changes, gpu_workspace.NAME):
        held.update(facts["preflight"].get("gpus_of_people") or {})
    models = facts["state"].get(gpu_serving.NAME, {}).get("models") or {}
    for name in set(models) - set(gpu_serving.touched(changes)):
        held["model " + name] = (models[name]["record"] or {}).get("gpus") or []
    of_slurm = share.of_slurm(share.promised(options), len(facts["gpus"]))
    return [
        (
            f"GPU {index} would be Slurm's, and {name} has it now",
            "give Slurm other GPUs (slurm_gpus, as a list), or say in gpu_workspaces or "
            "gpu_servings which ones the others get, as a list of indices: then both change in "
            "one run",
        )
        for name in sorted(held)
        for index in of_slurm
        if held[name] == "all" or index in held[name]
    ]


def gpus_of_people(context: Context) -> dict[str, list[int]]:
    """{person: indices} of the GPUs that people have; {} where Slurm is to give out none."""
    return of_workspaces.kept_gpus(context) if share.promised(context.options) else {}


FACTS = {"gpus_of_people": gpus_of_people}
RULES = (
    *rules_of(
        slurm.NAME,
        stops={
            "slurm-options": slurm_options,
            "slurm-theirs": slurm_theirs,
            "slurm-controller": slurm_controller,
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
    *rules_of("gpu_workspace", stops={"workspace-slurm": workspace_slurm}),
)
