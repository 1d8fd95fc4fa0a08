"""Whether all hosts of a run are done, asked of their variables once."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.provision.gpu.plugins.filter.plans import all_proven, all_settled

from tests.collection import ROOT

SETTLED: dict[str, Any] = {"gpu_plan": {"components": [], "blockers": []}}
BLOCKED: dict[str, Any] = {"gpu_plan": {"components": [], "blockers": [{"id": "disk"}]}}
CHANGED: dict[str, Any] = {"gpu_plan": {"components": ["cuda"], "blockers": []}}


@pytest.mark.parametrize(
    ("hosts", "settled", "proven"),
    [
        ([], True, True),
        ([{}], True, True),
        ([SETTLED, {}, SETTLED], True, True),
        ([SETTLED, BLOCKED], False, True),
        ([SETTLED, CHANGED], False, False),
        ([{"gpu_plan": {"failed": True}}], True, True),
        ([{**SETTLED, "gpu_verify": "never"}], True, True),
        ([SETTLED, {**SETTLED, "gpu_verify": "always"}], True, False),
        ([{"gpu_verify": "always"}], True, False),
    ],
)
def test_what_plans_come_to(hosts: list[dict[str, Any]], settled: bool, proven: bool) -> None:
    assert (all_settled(hosts), all_proven(hosts)) == (settled, proven)


class Counted(dict[str, Any]):
    """A host's variables, which Ansible puts together anew for each template that names them."""

    asked = 0

    def __getitem__(self, name: str) -> Any:
        self.asked += name == "gpu_plan"
        return super().__getitem__(name)


def test_a_converged_batch_is_asked_once_at_each_gate() -> None:
    host = Counted(SETTLED)
    assert all_settled([host])
    assert host.asked == 1
    plays = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    tasks = {task["name"]: task for play in plays for task in play.get("tasks", [])}
    for gate in ("Stop where every host is as locked", "Stop where no host has anything to prove"):
        task = str(tasks["End | " + gate])
        assert task.count("hostvars") == 1
        assert "__gpu" not in task
