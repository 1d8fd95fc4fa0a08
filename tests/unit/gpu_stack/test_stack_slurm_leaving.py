"""A controller of Slurm's on which jobs ran, and where none are to run any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from converged_host import Host
from gpu_stack.components import slurm
from gpu_stack.components.slurm import configuration, obstacles, paths, wishes
from gpu_stack.components.slurm.program.node import SETTINGS
from slurm_host import OPTIONS, PART, noted
from slurm_look import context, node_host, plan

FACTS = {"platform": {"distribution": "debian", "release": "12"}}
LEAVING = {**OPTIONS, "slurm_compute": False}
OWN = {**PART, "name": "gpu01", "address": "10.0.0.1"}
CLUSTER = {
    "settings": wishes.settings(OPTIONS),
    "host": {"hostname": "box", "address": "10.0.0.1"},
    "controller": "gpu01",
}
LEAVES = ("node gpu01", "here", None, "slurm_compute is false")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """The controller gpu01, which is a node too; gpu02 is another."""
    host = node_host(tmp_path)
    noted(host, part=OWN, **CLUSTER)
    keep(host, OWN, PART)
    return host


def keep(host: Host, *parts: dict[str, object]) -> None:
    """Gives the controller these parts, and the configuration of them."""
    for part in parts:
        host.write(f"{paths.PARTS}/{part['name']}.json", json.dumps(part))
    for path, text in configuration.files(CLUSTER, list(parts)).items():
        host.write(path, text)


def test_a_node_that_is_to_run_no_jobs_is_planned_to_go(host: Host) -> None:
    assert plan(host, LEAVING) == [LEAVES]


@pytest.mark.parametrize("left", ["the note", "the part", "the node's own file"])
def test_what_a_run_that_was_cut_off_has_left_of_it_goes_too(host: Host, left: str) -> None:
    noted(host, **({"part": OWN} if left == "the note" else {}), **CLUSTER)
    if left != "the node's own file":
        host.remove(SETTINGS)
    if left != "the part":
        host.remove(f"{paths.PARTS}/gpu01.json")
        keep(host, PART)
    assert plan(host, LEAVING) == [LEAVES]


def test_a_controller_that_is_no_node_has_nothing_to_go(host: Host) -> None:
    noted(host, part=None, **CLUSTER)
    host.remove(SETTINGS)
    host.remove(f"{paths.PARTS}/gpu01.json")
    keep(host, PART)
    assert plan(host, LEAVING) == []


def test_no_node_goes_under_a_job(host: Host) -> None:
    line = "7|ada|gpu|gpu01|RUNNING"
    seen = obstacles.survey(context(host, LEAVING, timeout=line), FACTS)
    assert seen["removal"].startswith("job 7 of ada on gpu01: run again")
    assert obstacles.survey(context(host, OPTIONS, timeout=line), FACTS)["removal"] == ""
    host.write("/proc/77/comm", "slurmstepd\n")
    host.write("/proc/77/status", "Uid:\t0\t0\t0\t0\n")
    seen = obstacles.survey(context(host, LEAVING, timeout="error: no slurmctld"), FACTS)
    assert seen["removal"].startswith("1 job steps (error: no slurmctld)")


def test_the_gpus_are_slurms_until_the_node_is_gone(host: Host) -> None:
    state = slurm.look(context(host, LEAVING))
    facts, changes = {"state": {"slurm": state}}, slurm.differ({}, state, LEAVING)
    assert not slurm.still_computes(facts, changes)
    assert slurm.still_computes(facts, [dict(changes[0], selected=False)])
    assert slurm.still_computes(facts, [])
    assert not slurm.still_computes({"state": {"slurm": {"here": False}}}, [])
