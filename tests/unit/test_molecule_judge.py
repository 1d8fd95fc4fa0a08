"""The judge of Molecule's steps, on the recorded runs of a scenario that passed.

Each of its functions passes the run it is for, and turns red by each thing it guards: a proof that
passes on a bare host, a check that names one item too many or too few, a second run that changes.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.roles import ROLES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule"))
import judge  # noqa: E402 - beside the scenarios

HOST = "molecule1"
# What `molecule verify`, `check`, `converge` ... of the scenario gpu_env left in report/, in the
# order of the sequence; other components' parts of the reports are shortened.
STEPS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "molecule_gpu_env.json").read_text("utf-8")
)
EXPECTED = yaml.safe_load((ROOT / "molecule/gpu_env/expect.yml").read_text("utf-8"))[HOST]
PLAN, REPAIR = EXPECTED["plan"], EXPECTED["damage"]["plan"]


def recorded(step: str) -> judge.Run:
    """A fresh copy of a step's run, to be altered."""
    part = copy.deepcopy(STEPS[step])
    return judge.Run(part["report"], part["events"])


def bare(run: judge.Run) -> list[str]:
    return judge.must_fail(run, HOST, PLAN, EXPECTED["bare"])


def planned(run: judge.Run) -> list[str]:
    return judge.planned(run, HOST, PLAN)


def repair_planned(run: judge.Run) -> list[str]:
    return judge.planned(run, HOST, REPAIR)


def converged(run: judge.Run) -> list[str]:
    return judge.converged(run, HOST, PLAN, checked=False)


def repaired(run: judge.Run) -> list[str]:
    return judge.converged(run, HOST, REPAIR)


def idempotent(run: judge.Run) -> list[str]:
    return judge.unchanged(run, HOST, "run")


def nothing_planned(run: judge.Run) -> list[str]:
    return judge.unchanged(run, HOST, "check")


def proven(run: judge.Run) -> list[str]:
    return judge.proven(run, HOST, PLAN, EXPECTED["passed"], EXPECTED["not_applicable"])


JUDGES: dict[str, Callable[[judge.Run], list[str]]] = {
    "bare verify": bare,
    "check": planned,
    "converge": converged,
    "idempotence": idempotent,
    "empty check": nothing_planned,
    "check of the damage": repair_planned,
    "repair": repaired,
    "verify": proven,
}


@pytest.mark.parametrize("step", JUDGES)
def test_each_step_of_a_good_scenario_passes(step: str) -> None:
    assert JUDGES[step](recorded(step)) == []


@pytest.mark.parametrize("step", JUDGES)
@pytest.mark.parametrize("other", JUDGES)
def test_no_step_passes_for_another(step: str, other: str) -> None:
    """A step that did nothing, or the wrong thing, leaves another one's report."""
    if step != other:
        assert JUDGES[step](recorded(other)) != []


def entry(run: judge.Run) -> dict[str, Any]:
    found: dict[str, Any] = run.report["hosts"][HOST]
    return found


def check(run: judge.Run, identifier: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        check for check in entry(run)["checks"] if check["id"] == identifier
    )
    return found


def one_more_change(run: judge.Run) -> None:
    more = dict(entry(run)["changes"][0], component="gpu_env", item="/etc/motd", selected=True)
    entry(run)["changes"].append(more)


def another_components_change(run: judge.Run) -> None:
    next(change for change in entry(run)["changes"] if change["component"] == "cudnn")[
        "selected"
    ] = True


def one_change_less(run: judge.Run) -> None:
    entry(run)["changes"] = [
        change for change in entry(run)["changes"] if change["item"] != "/etc/environment"
    ]


def the_same_change_twice(run: judge.Run) -> None:
    environment = [
        change for change in entry(run)["changes"] if change["item"] == "/etc/environment"
    ]
    entry(run)["changes"] += environment


def a_task(run: judge.Run, **more: Any) -> None:
    """A task more, before the end of the run."""
    done = next(event for event in run.events if event["event"] == "host_result")
    task = {"task": "cudnn : loader | Rebuild", "status": "ok", "changed": False, **more}
    run.events.insert(-1, {**done, **task})


def bare_host_passes(run: judge.Run) -> None:
    check(run, "gpu_env.variables")["result"] = "passed"


def no_checks(run: judge.Run) -> None:
    entry(run)["checks"] = []


def no_host(run: judge.Run) -> None:
    run.report["hosts"] = {}


def left_over(run: judge.Run) -> None:
    entry(run)["left"] = [{"component": "gpu_env", "item": "/etc/environment", "selected": True}]


def role_did_nothing(run: judge.Run) -> None:
    entry(run)["components"]["gpu_env"]["changed"] = False


def failure(run: judge.Run) -> None:
    entry(run)["failure"] = {"task": "x", "message": "no space left", "phase": "apply"}


def checked(run: judge.Run) -> None:
    entry(run)["checks"] = [{"id": "gpu_env.variables", "result": "passed"}]


def check_does_not_apply(run: judge.Run) -> None:
    check(run, "gpu_env.variables")["result"] = "not_applicable"


def other_mode(run: judge.Run) -> None:
    run.report["mode"] = "run" if run.report["mode"] == "check" else "check"


RED: list[tuple[str, Callable[[judge.Run], None], str]] = [
    ("bare verify", bare_host_passes, "checks failed, too few: gpu_env.variables"),
    ("bare verify", no_checks, "checks failed, too few: gpu_env.variables"),
    ("bare verify", no_host, "checks failed, too few: gpu_env.variables"),
    ("bare verify", other_mode, "the report is of mode check, not of verify"),
    ("check", one_more_change, "changes planned, too many: gpu_env: /etc/motd"),
    ("check", another_components_change, "changes planned, too many: cudnn: cudnn"),
    ("check", one_change_less, "changes planned, too few: gpu_env: /etc/environment"),
    ("check", the_same_change_twice, "changes planned, too many: gpu_env: /etc/environment"),
    ("check", a_task, "it should have looked once and done nothing else"),
    ("check", no_host, "changes planned, too few"),
    ("check", other_mode, "the report is of mode run, not of check"),
    ("check of the damage", one_more_change, "changes planned, too many: gpu_env: /etc/motd"),
    ("check of the damage", one_change_less, "changes planned, too few: gpu_env: /etc/environment"),
    ("converge", one_more_change, "changes planned, too many: gpu_env: /etc/motd"),
    ("converge", one_change_less, "changes planned, too few: gpu_env: /etc/environment"),
    ("converge", lambda run: a_task(run, component="cudnn"), "roles ran, too many: cudnn"),
    ("converge", role_did_nothing, "roles changed something, too few: gpu_env"),
    ("converge", left_over, "changes were left, too many: gpu_env: /etc/environment"),
    ("converge", failure, "the run failed: no space left"),
    ("converge", checked, "the run ended with checks"),
    ("converge", other_mode, "the report is of mode check, not of run"),
    ("repair", one_more_change, "changes planned, too many: gpu_env: /etc/motd"),
    ("idempotence", lambda run: a_task(run, changed=True), "tasks changed something, too many"),
    ("idempotence", a_task, "it should have looked once and done nothing else"),
    ("idempotence", no_host, "it should have looked once"),
    ("idempotence", another_components_change, "changes planned, too many: cudnn: cudnn"),
    ("idempotence", other_mode, "the report is of mode check, not of run"),
    ("empty check", another_components_change, "changes planned, too many: cudnn: cudnn"),
    ("verify", check_does_not_apply, "checks passed, too few: gpu_env.variables"),
    ("verify", check_does_not_apply, "checks were not applicable, too many: gpu_env.variables"),
    ("verify", no_checks, "checks passed, too few: gpu_env.variables"),
    ("verify", no_host, "checks passed, too few: gpu_env.variables"),
    (
        "verify",
        lambda run: check(run, "gpu_env.variables").update(result="failed"),
        "checks failed, too many: gpu_env.variables",
    ),
]


@pytest.mark.parametrize(
    ("step", "alter", "says"), RED, ids=[f"{n}-{case[0]}" for n, case in enumerate(RED)]
)
def test_a_step_that_went_wrong_is_red(
    step: str, alter: Callable[[judge.Run], None], says: str
) -> None:
    run = recorded(step)
    if alter is no_host:  # its events are those of a run that never reached it
        run = judge.Run(run.report, [event for event in run.events if event.get("host") != HOST])
    alter(run)
    assert says in "; ".join(JUDGES[step](run))


def test_an_expectation_that_could_not_fail_is_red() -> None:
    assert "can't fail" in "; ".join(judge.must_fail(recorded("verify"), HOST, PLAN, []))
    assert "proves nothing" in "; ".join(judge.proven(recorded("verify"), HOST, ["cuda"], [], []))


def test_the_locks_packages_and_what_only_the_host_knows_are_filled_in() -> None:
    row = {"cuda": {"packages": {"runtime": {"libcudart11.0": "1", "libcufft10": "2"}}}}
    plan = judge.expand({"cuda": ["pins", {"packages": "runtime"}]}, row)
    assert plan == {"cuda": ["pins", "libcudart11.0", "libcufft10"]}
    run = recorded("check")
    entry(run)["changes"] = [
        {"component": "gpu_env", "item": "module for kernel 5.10.0-32-amd64", "selected": True}
    ]
    assert judge.planned(run, HOST, {"gpu_env": ["module for kernel 5.10.0-*"]}) == []
    assert judge.planned(run, HOST, {"gpu_env": ["module for kernel 6.*"]}) != []


# The door leads to workspaces and models, which lean on all the rest: it is brought from bare in
# tests/hosts/test_front_door.py. artifact_cache is no component, so not of ROLES either:
# tests/hosts/test_cache.py.
WITHOUT_SCENARIO = {"gpu_front_door"}


@pytest.mark.parametrize("name", [r.name for r in ROLES if r.name not in WITHOUT_SCENARIO])
def test_every_role_has_its_scenario(name: str) -> None:
    folder = ROOT / "molecule" / name
    assert (folder / "molecule.yml").resolve() == ROOT / "molecule/role.yml"
    for expected in yaml.safe_load((folder / "expect.yml").read_text("utf-8")).values():
        assert list(expected["plan"]) == list(expected["damage"]["plan"]) == [name]
        assert expected["bare"]
        assert expected["passed"]


def sequence(scenario: dict[str, Any]) -> list[str]:
    steps: list[str] = scenario["scenario"]["test_sequence"]
    return steps


def test_all_scenarios_go_through_the_same_sequence() -> None:
    """`default` and the two for options differ in hosts, tags, preparation and proof alone."""
    role = yaml.safe_load((ROOT / "molecule/role.yml").read_text("utf-8"))
    for name in ("default", "options", "options_desktop"):
        other = yaml.safe_load((ROOT / "molecule" / name / "molecule.yml").read_text("utf-8"))
        steps = [step.replace("no_effects", "must_fail") for step in sequence(other)]
        assert steps == sequence(role), name
        for key in ("create", "converge", "side_effect", "destroy"):
            assert other["provisioner"]["playbooks"][key] == role["provisioner"]["playbooks"][key]
