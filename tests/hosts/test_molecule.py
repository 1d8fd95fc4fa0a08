"""Molecule's scenarios, step by step, each step judged by the run's own report.

Molecule runs the steps; `molecule/judge.py` says whether they did what `expect.yml` promises, which
Molecule itself can't (docs/molecule.md). A few run in `make test`, the rest is slow: `default` too,
for test_spine shows the whole site.yml on bare hosts, its repairs and the run after them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule"))
import judge  # noqa: E402 - beside the scenarios, for whoever runs them in a CI of their own

MOLECULE = Path(sys.executable).parent / "molecule"


class Scenario:
    """One scenario of molecule/, and the project that its `create` step makes."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.project = ROOT / "build" / "molecule" / name
        self.expected: dict[str, dict[str, Any]] = yaml.safe_load(
            (ROOT / "molecule" / name / "expect.yml").read_text("utf-8")
        )
        self.times: list[str] = []
        # Molecule's own files go to a directory of this run; its hosts to this process.
        self._environment = os.environ | {
            "PROVISION_LAB_OWNER": str(os.getpid()),
            "NO_COLOR": "1",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(home),
            "PATH": f"{MOLECULE.parent}:{os.environ['PATH']}",
        }

    def molecule(self, step: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One `molecule STEP`, however it ends; no earlier report is taken for its."""
        (self.project / "report" / "latest").unlink(missing_ok=True)
        begun = time.monotonic()
        done = subprocess.run(
            [str(MOLECULE), step, "-s", self.name, *arguments],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False,
            timeout=2400,
        )  # fmt: skip
        self.times.append(f"{step} {time.monotonic() - begun:.0f} s")
        return done

    def step(self, step: str, *arguments: str) -> None:
        """A step that must succeed."""
        done = self.molecule(step, *arguments)
        assert done.returncode == 0, f"{step}: {(done.stdout + done.stderr)[-40000:]}"

    def playbook(self, name: str) -> subprocess.CompletedProcess[str]:
        """A playbook of molecule/ that is no step: Molecule names one only in a test_sequence."""
        variables = {
            "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
            "MOLECULE_SCENARIO_NAME": self.name,
            "MOLECULE_SCENARIO_DIRECTORY": str(ROOT / "molecule" / self.name),
        }
        return subprocess.run(
            [str(MOLECULE.parent / "ansible-playbook"), str(ROOT / "molecule" / name),
             "-i", str(self.project / "lab")],
            cwd=ROOT, env=self._environment | variables, capture_output=True, text=True,
            check=False, timeout=2400,
        )  # fmt: skip

    def run(self) -> judge.Run:
        """What the last step told."""
        return judge.Run.read(self.project / "report" / "latest")

    def plans(self, *path: str) -> dict[str, dict[str, list[str]]]:
        """{host: plan at `path` of its expectations}, with the lock's packages filled in."""
        lock = yaml.safe_load((self.project / "stacks" / "gpu_lock.yml").read_text("utf-8"))
        ((_id, row),) = lock["gpu_lock"]["stacks"].items()
        found = {}
        for host, expected in self.expected.items():
            plan: Any = expected
            for key in path:
                plan = plan[key]
            found[host] = judge.expand(plan, row)
        return found


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scenario]:
    """The scenario that the test's parameter names; its hosts are removed afterwards."""
    made = Scenario(request.param, tmp_path)
    try:
        yield made
    finally:
        made.molecule("destroy")
        sys.stdout.write(f"\n{made.name}: {', '.join(made.times)}\n")


def sequence(scenario: Scenario) -> None:
    """Bare host, proof must fail, check, converge, idempotence, check must be empty, damage, check
    must name exactly the repair, converge, verify.
    """
    expected = scenario.expected
    scenario.step("create")
    plans, repairs = scenario.plans("plan"), scenario.plans("damage", "plan")

    assert scenario.molecule("verify").returncode != 0, "the proof passes on a bare host"
    run = scenario.run()
    for host, wanted in expected.items():
        assert judge.must_fail(run, host, wanted["plan"], wanted["bare"]) == []

    if (ROOT / "molecule" / scenario.name / "effects.yml").exists():
        done = scenario.playbook("no_effects.yml")
        assert done.returncode == 0, done.stdout[-40000:] + done.stderr

    scenario.step("check")
    for host in expected:
        assert judge.planned(scenario.run(), host, plans[host]) == []
    scenario.step("converge")
    for host in expected:
        checked = expected[host].get("checks_in_run")
        assert judge.converged(scenario.run(), host, plans[host], checked) == []
    scenario.step("idempotence")
    for host in expected:
        assert judge.unchanged(scenario.run(), host, "run") == []
    scenario.step("check")
    for host in expected:
        assert judge.unchanged(scenario.run(), host, "check") == []

    scenario.step("side-effect")
    scenario.step("check")
    for host in expected:
        assert judge.planned(scenario.run(), host, repairs[host]) == []
    scenario.step("converge")
    for host in expected:
        assert judge.converged(scenario.run(), host, repairs[host]) == []
    scenario.step("verify")
    run = scenario.run()
    for host, wanted in expected.items():
        verdict = judge.proven(
            run, host, wanted["plan"], wanted["passed"], wanted["not_applicable"]
        )
        assert verdict == []


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("default", marks=SLOW),
        "gpu_env",
        pytest.param("cudnn", marks=SLOW),
        pytest.param("nvidia_driver", marks=SLOW),
        pytest.param("cuda", marks=SLOW),
        pytest.param("nvidia_container_toolkit", marks=SLOW),
        pytest.param("gpu_workspace", marks=SLOW),
        pytest.param("gpu_front_door", marks=SLOW),
        pytest.param("gpu_serving", marks=SLOW),
        pytest.param("slurm", marks=SLOW),
        pytest.param("tensorflow", marks=SLOW),
        pytest.param("options", marks=SLOW),
        pytest.param("options_desktop", marks=SLOW),
    ],
    indirect=True,
)
def test_from_bare_to_proven_and_repaired(scenario: Scenario) -> None:
    """Each step does exactly what the scenario's expect.yml promises."""
    sequence(scenario)


@SLOW
@pytest.mark.parametrize("scenario", ["reject"])
def test_whole_scenario(scenario: str, tmp_path: Path) -> None:
    """Every preflight rule that can be tripped on a local host is, by `molecule test`."""
    environment = os.environ | {
        "PROVISION_LAB_OWNER": str(os.getpid()),
        "NO_COLOR": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(tmp_path),
        "PATH": f"{MOLECULE.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [str(MOLECULE), "test", "-s", scenario],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=2400,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-40000:]
