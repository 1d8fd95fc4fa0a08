"""`provision train` where a host can't be reached: what is known of the others is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision import collection
from provision.run import training
from tests.unit.run.examined import UNREACHABLE
from tests.unit.run.test_run_train import Project, answers, project

__all__ = ["project"]  # a fixture


@pytest.fixture
def away(project: Project) -> Project:
    """gpu02 is switched off."""
    path = project.path / "lab/hosts.yml"
    inventory = json.loads(path.read_text())
    inventory["all"]["children"]["gpu"]["hosts"]["gpu02"].update(UNREACHABLE)
    path.write_text(json.dumps(inventory))
    # Who follows a job asks such a host a dozen times.
    plugin = project.path / collection.IN_TREE / "plugins/action/gpu_training.py"
    text = plugin.read_text().replace("WAIT, AGAIN = 5.0, 5.0", "WAIT, AGAIN = 5.0, 0.0")
    plugin.write_text(text)
    return project


def test_the_status_is_said_by_the_hosts_that_answer(away: Project) -> None:
    code, output = away.train(answers(), "gpu", "--status", "j")
    assert "j: complete: /w/0/final" in output
    assert "gpu02: unreachable" in output
    assert code == 0


def test_the_jobs_of_the_hosts_that_answer_are_listed(away: Project) -> None:
    entry = {"job": "j", "worker": 0, "verdict": "", "active": True, "progress": {"epoch": 2}}
    code, output = away.train({**answers(), "list": {"all": [entry]}}, "gpu", "--jobs")
    assert "j: running, epoch 2 (gpu01)" in output
    assert "gpu02: unreachable" in output
    assert code == 0


def test_who_is_followed_to_its_end_is_judged(away: Project) -> None:
    code, output = away.train(answers("failed"), "gpu", "--follow", "j")
    assert "j: failed" in output
    assert code == 4


def test_nothing_is_started_where_one_host_is_away(away: Project) -> None:
    code, output = away.start(answers())
    assert code == 4
    assert "gpu02: unreachable" in output
    assert {(step["step"], step["host"]) for step in away.asked} == {("look", "gpu01")}


@pytest.mark.parametrize(("status", "code"), [("ok", 2), ("unreachable", 4)])
def test_a_job_that_nobody_knows_may_be_on_the_host_that_is_away(status: str, code: int) -> None:
    hosts: dict[str, Any] = {"gpu01": {"status": "ok"}, "gpu02": {"status": status}}
    report = {"hosts": hosts, "refused": "", "asked": {}, "outcome": {"state": "unknown"}}
    assert training.exit_code(report, 2) == code
