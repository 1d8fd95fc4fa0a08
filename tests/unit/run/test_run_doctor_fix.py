"""`provision doctor --fix`: the runs that fix hosts, and what becomes of their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provision import run
from provision.errors import ProvisionError
from tests import called

TITLES = {"numpy-2": "NumPy is too new", "cuda-libraries": "a library is gone"}


def sick(case: str, component: str, **more: Any) -> dict[str, Any]:
    """A host's part of report/doctor.json with one finding, which a run of a component cures."""
    return {
        "status": "ill", "message": "", "fixed": [], "components": [component], "locked": True,
        "differences": 0, "notes": [], "simulated_gpu": False,
        "findings": [{
            "id": case, "title": TITLES[case], "evidence": [], "cure": "a run", "commands": [],
            "threads": [], "fix": {"components": [component], "steps": []},
        }],
    } | more  # fmt: skip


def well() -> dict[str, Any]:
    return sick("numpy-2", "tensorflow", status="healthy", findings=[], components=[])


def unreachable() -> dict[str, Any]:
    return well() | {"status": "unreachable", "message": "Connection refused"}


def two_groups() -> dict[str, Any]:
    """Two hosts, each of which a run of its own cures."""
    return {"gpu01": sick("numpy-2", "tensorflow"), "gpu02": sick("cuda-libraries", "cuda")}


def run_report(status: str) -> dict[str, Any]:
    """A run's report with one host."""
    host = {"status": status, "message": "", "versions": {}, "components": {}}
    return {"format": 1, "mode": "run", "hosts": {"gpu01": host}}


class Fix:
    """`provision doctor --fix`, with given answers of the hosts and ends of the runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[tuple[dict[str, Any], int]] = []
        self.ends: list[tuple[dict[str, Any] | None, int]] = []
        self.runs: list[tuple[str, ...]] = []
        self.log = folder / "ansible.log"
        self.log.write_text("ERROR! what Ansible said\n")
        self._folder = folder
        monkeypatch.setattr(run, "examine", self._examine)
        monkeypatch.setattr(run, "run_playbook", self._run_playbook)
        monkeypatch.setattr("provision.report.terminal.outcome", lambda *_, **__: None)

    def _examine(self, *_: Any, **__: Any) -> tuple[dict[str, Any], int, Path]:
        hosts, code = self.looks.pop(0)
        return {"format": 1, "hosts": hosts}, code, self.log

    def _run_playbook(self, _tree: Path, options: run.Options, **_: Any) -> run.Outcome:
        self.runs.append((*options.hosts, *options.tags))
        report, code = self.ends.pop(0)
        return run.Outcome(report, code, code, self.log)

    def __call__(self, *arguments: str) -> tuple[int, str]:
        return called.provision("doctor", "--fix", "--project", self._folder, *arguments)


@pytest.fixture
def fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fix:
    return Fix(tmp_path, monkeypatch)


def test_each_group_of_hosts_has_a_run_of_its_own(fix: Fix) -> None:
    fix.looks = [(two_groups(), 5), ({"gpu01": well(), "gpu02": well()}, 0)]
    fix.ends = [(run_report("proven"), 0)] * 2
    code, output = fix()
    assert fix.runs == [("gpu01", "tensorflow"), ("gpu02", "cuda")]
    assert (code, output.splitlines()) == (0, [
        "gpu01: healthy", "  fixed: NumPy is too new",
        "gpu02: healthy", "  fixed: a library is gone",
    ])  # fmt: skip


def test_after_an_interrupted_run_no_other_begins(fix: Fix) -> None:
    fix.looks = [(two_groups(), 5)]
    fix.ends = [(run_report("failed"), 130)]
    assert fix() == (130, "")
    assert fix.runs == [("gpu01", "tensorflow")]


def test_after_an_interrupted_look_no_run_begins(fix: Fix) -> None:
    fix.looks = [(two_groups(), 130)]
    assert fix()[0] == 130
    assert fix.runs == []


def test_an_interrupted_last_look_is_told_from_a_fix_that_failed(fix: Fix) -> None:
    fix.looks = [({"gpu01": sick("numpy-2", "tensorflow")}, 5), ({"gpu01": well()}, 130)]
    fix.ends = [(run_report("failed"), 4)]
    assert fix()[0] == 130


@pytest.mark.parametrize("code", [4, 6])
@pytest.mark.parametrize("after", [sick("numpy-2", "tensorflow"), well()])
def test_a_fix_that_failed_has_exit_code_4(fix: Fix, after: dict[str, Any], code: int) -> None:
    fix.looks = [(two_groups(), 5), ({"gpu01": after, "gpu02": well()}, 5)]
    fix.ends = [(run_report("failed"), code), (run_report("proven"), 0)]
    assert fix()[0] == 4
    assert len(fix.runs) == 2


def test_a_run_without_a_report_is_an_error_with_what_ansible_said(fix: Fix) -> None:
    fix.looks = [(two_groups(), 5)]
    fix.ends = [(None, 2)]
    with pytest.raises(ProvisionError, match="before it reached a host") as failure:
        fix()
    assert "what Ansible said" in failure.value.got
    assert failure.value.exit_code == 2


def test_a_host_that_is_not_reached_any_more_is_not_called_fixed(fix: Fix) -> None:
    before = sick("numpy-2", "tensorflow", fixed=["apt works again"])
    fix.looks = [
        ({"gpu01": before, "gpu02": before}, 5),
        ({"gpu01": unreachable(), "gpu02": well()}, 4),
    ]
    fix.ends = [(run_report("proven"), 0)]
    code, output = fix()
    assert code == 4
    lost, cured = output.split("gpu02: healthy")
    assert "  fixed: apt works again\n" in lost
    assert "NumPy" not in lost
    assert "  fixed: NumPy is too new\n" in cured


def test_a_host_whose_second_look_failed_is_not_called_fixed(fix: Fix) -> None:
    failed = well() | {"status": "failed", "message": "no Python"}
    fix.looks = [({"gpu01": sick("numpy-2", "tensorflow")}, 5), ({"gpu01": failed}, 4)]
    fix.ends = [(run_report("proven"), 0)]
    assert "fixed:" not in fix()[1]
