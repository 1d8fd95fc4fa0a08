"""Slurm: what slurmctld says of nodes and jobs, and what is in a run's way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from converged_host import Host
from gpu_stack.components.slurm import controller, jobs, node, nodes, obstacles, paths, wishes
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from slurm_host import DEFAULTS, NODE, OPTIONS, PART, SHOWN
from slurm_look import context, node_host, plan


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return node_host(tmp_path)


@pytest.mark.parametrize(
    ("state", "ready"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("IDLE*", False), ("IDLE+DRAIN", False),
     ("DOWN", False), ("MIXED+PLANNED", True), ("DOWN*+DRAIN", False),
     ("IDLE+NOT_RESPONDING", False), ("UNKNOWN", False)],
)  # fmt: skip
def test_a_node_is_ready_or_not(state: str, ready: bool) -> None:
    assert nodes.is_ready(nodes.parse(SHOWN.replace("State=IDLE", f"State={state}"))) is ready


@pytest.mark.parametrize(
    ("reason", "expected", "cure"),
    [
        ("Low RealMemory (reported:100 < 100.00% of configured:200)", "less memory", "run again"),
        ("gres/gpu count reported lower than configured (1 < 2)", "fewer GPUs", "nvidia-smi -L"),
        ("Not responding", "does not reach its slurmd", "TCP 6818"),
        ("Node unexpectedly rebooted", "Node unexpectedly rebooted", "state=resume"),
    ],
)
def test_a_reason_is_said_with_its_cure(reason: str, expected: str, cure: str) -> None:
    line = SHOWN.replace("State=IDLE", "State=DOWN+DRAIN") + f" Reason={reason} [root@2026-11-26]"
    wrong, todo = nodes.why(nodes.parse(line))
    assert expected in wrong
    assert cure in todo


def test_a_users_words_in_a_reason_are_none_of_slurms() -> None:
    quoted = "provision: prolog: in use outside of job 9: pid 5 of eve (x State=IDLE Gres=no)"
    line = SHOWN.replace("State=IDLE", "State=IDLE+DRAIN") + f" Reason={quoted} [root@2026-11-26]"
    seen = nodes.parse(line)
    assert (seen["reason"], seen["by"], seen["marks"]) == (quoted, "root", ["DRAIN"])
    assert nodes.unlike(seen, PART) == ""


def test_an_error_of_munge_is_said() -> None:
    error = "slurm_load_node error: Protocol authentication error"
    assert "munge key" in nodes.why(nodes.ask(lambda _argv: Result(1, "", error), "gpu02"))[0]
    assert "error" in nodes.ask(lambda _argv: Result(0, "", ""), "gpu02")


def test_jobs_are_reported_by_who_and_where() -> None:
    lines = "7|ada|gpu|gpu02|RUNNING\nno line\n8|bob|gpu|gpu[01-02]|RUNNING\n"
    running, unknown = jobs.at_work(lambda _argv: Result(0, lines, ""), "gpu02")
    assert unknown == ""
    assert jobs.words(running) == "job 7 of ada on gpu02, job 8 of bob on gpu[01-02]"
    assert jobs.words(running * 3).endswith(" and 2 more")
    assert jobs.at_work(lambda _argv: Result(1, "", "no answer"))[1] == "no answer"


# what prevents it


def test_what_would_end_a_job_is_known() -> None:
    noted = {"settings": {**wishes.settings(OPTIONS), "partitions": [{"name": "a"}]}}
    wished = {"settings": {**wishes.settings(OPTIONS), "partitions": [{"name": "b"}]}}
    less = {**PART, "gpus": PART["gpus"][:1]}
    assert controller.endangered(noted, noted, [PART], [PART]) == (set(), set())
    assert controller.endangered(noted, wished, [PART], [less]) == ({"gpu02"}, {"a"})
    assert controller.endangered(noted, noted, [PART], []) == ({"gpu02"}, set())
    assert controller.endangered({}, wished, [], [PART]) == (set(), set())


def test_clocks_apart_are_refused_and_slow_tasks_are_not() -> None:
    node.clocks_agree(100, 3000, 9000)
    with pytest.raises(RefusalError, match="400 s ahead of its controller's"):
        node.clocks_agree(1000, 600, 1001)
    with pytest.raises(RefusalError, match="500 s behind its controller's"):
        node.clocks_agree(100, 603, 103)


def test_the_survey_reads_what_is_in_the_way(host: Host, tmp_path: Path) -> None:
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    seen = obstacles.survey(context(host, NODE), facts)
    assert seen["theirs"] == seen["faults"] == []
    assert (seen["release"], seen["steps"], seen["removal"]) == ([22, 5], 0, "")
    host.remove(paths.NOTED)
    host.write(paths.SLURM_CONF, "ClusterName=theirs\n")
    assert obstacles.survey(context(host, NODE), facts)["theirs"] == [paths.SLURM_CONF]
    host.write("/sys/fs/cgroup/cgroup.controllers", "cpu\n")
    assert obstacles.cgroup(context(host, NODE)) == 2


def test_a_reserve_that_leaves_jobs_nothing_is_refused(host: Host) -> None:
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    options = {**NODE, "slurm_memory_reserve": 64 * 1024}
    (fault,) = obstacles.survey(context(host, options), facts)["faults"]
    assert fault == "slurm_memory_reserve: 65536 MiB of this host's 64414 leave jobs none"


@pytest.mark.parametrize(
    ("controller", "node", "expected"),
    [
        ("22.05.8", "20.11.4", None),
        ("23.11.4", "22.05.8", None),
        ("24.11.5", "23.11.4", None),
        ("24.11.5", "22.05.8", "24.11 serves nodes from 23.02 to its own"),
        ("23.11.4", "21.08.5", "23.11 serves nodes from 22.05 to its own"),
        ("22.05.8", "24.11.5", "22.05 serves none that is newer"),
        ("25.11.0", "22.05.8", None),
        ("", "22.05.8", None),
    ],
)
def test_releases_that_a_controller_serves(
    controller: str, node: str, expected: str | None
) -> None:
    read = [obstacles.version("slurm-wlm " + text) for text in (controller, node)]
    why = obstacles.unserved(*read)
    assert why is expected is None or (expected is not None and expected in (why or ""))


def test_a_controller_stays_as_long_as_it_has_nodes(host: Host) -> None:
    host.write(f"{paths.PARTS}/gpu03.json", json.dumps({**PART, "name": "gpu03"}))
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    assert obstacles.survey(context(host, DEFAULTS), facts)["removal"] == ""
    leaves = {**DEFAULTS, "slurm_host": {**OPTIONS["slurm_host"], "staying": ["gpu03"]}}
    seen = obstacles.survey(context(host, leaves), facts)
    assert seen["removal"].startswith("gpu03 is still of this controller's cluster")


def test_slurm_can_not_go_under_a_job(host: Host) -> None:
    host.write("/proc/77/comm", "slurmstepd\n")
    host.write("/proc/77/status", "Uid:\t0\t0\t0\t0\n")
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    line = "7|ada|gpu|gpu02|RUNNING"
    seen = obstacles.survey(context(host, DEFAULTS, timeout=line), facts)
    assert seen["removal"].startswith("job 7 of ada on gpu02: run again")
    host.write("/proc/77/status", "Uid:\t1000\t1000\t1000\t1000\n")  # somebody's of that name
    assert obstacles.survey(context(host, DEFAULTS), facts)["removal"] == ""


def removal(host: Host, squeue: Result, shown: Result, options: dict[str, Any]) -> str:
    """Why Slurm can't go, where squeue and `scontrol show node` answer so."""
    asked: list[list[str]] = []

    def run(argv: list[str]) -> Result:
        asked.append(argv)
        return squeue if "squeue" in argv else shown if "scontrol" in argv else Result(0, "", "")

    there = Context(root=str(host.root), options=options, runner=run)
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    why: str = obstacles.survey(there, facts)["removal"]
    (question,) = (argv for argv in asked if "squeue" in argv)
    assert question[:2] == ["timeout", "10"]
    assert question[-2:] == ["-w", "gpu02"]
    return why


KNOWN, NO_JOB = Result(0, SHOWN, ""), Result(0, "", "")
NOT_THERE = Result(1, "", "slurm_load_jobs error: Unable to contact slurm controller")
FORGOTTEN = Result(1, "Node gpu02 not found\n", "")
# As the action plugin has it where the controller is in the inventory too.
OF_INVENTORY = {**DEFAULTS, "slurm_host": {"name": "gpu02", "staying": []}}


@pytest.mark.parametrize("options", [DEFAULTS, OF_INVENTORY])
def test_slurm_can_not_go_under_an_allocation_without_a_step(
    host: Host, options: dict[str, Any]
) -> None:
    """slurmstepd runs only where a job has a step, not on all nodes that are allocated to it."""
    squeue = Result(0, "7|ada|gpu|gpu[01-02]|RUNNING\n", "")
    why = removal(host, squeue, KNOWN, options)
    assert why.startswith("job 7 of ada on gpu[01-02]: run again")
    assert removal(host, NO_JOB, KNOWN, options) == ""


def slurmd(host: Host) -> None:
    host.write("/proc/78/comm", "slurmd\n")
    host.write("/proc/78/status", "Uid:\t0\t0\t0\t0\n")


def test_slurm_goes_with_a_lost_controller_once_slurmd_is_stopped(host: Host) -> None:
    slurmd(host)
    why = removal(host, NOT_THERE, NOT_THERE, DEFAULTS)
    assert why.startswith("whether a job has this host can't be known: slurm_load_jobs error")
    assert "`systemctl disable --now slurmd` here, then run again" in why
    host.write("/proc/78/status", "Uid:\t1000\t1000\t1000\t1000\n")  # somebody's of that name
    assert removal(host, NOT_THERE, NOT_THERE, DEFAULTS) == ""


def test_slurm_goes_from_a_host_that_its_controller_has_forgotten(host: Host) -> None:
    slurmd(host)
    unknown = Result(1, "", "squeue: error: Invalid node name gpu02")
    assert removal(host, unknown, FORGOTTEN, DEFAULTS) == ""


def test_a_controller_of_the_inventory_is_asked_before_it_forgets_the_host(host: Host) -> None:
    """It may go in the same run, or not be able to start."""
    slurmd(host)
    assert removal(host, NOT_THERE, NOT_THERE, OF_INVENTORY) == ""


def test_faults_of_the_inventory_are_the_preflights(host: Host) -> None:
    options = {**NODE, "slurm_host": {**NODE["slurm_host"], "faults": ["gpu09 is not there"]},
               "slurm_max_time": "x"}  # fmt: skip
    changes = plan(host, options)
    assert [change[0] for change in changes] == ["cluster gpu"]
    faults = obstacles.survey(context(host, options), {"platform": {}})["faults"]
    assert faults[1] == "gpu09 is not there"
    assert faults[0].startswith("slurm_max_time: 'x' is no time")
