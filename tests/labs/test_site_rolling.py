"""Batches and canaries, by Ansible itself: site.yml's own keywords and gates around two stub tasks.

What a host does in between is not the matter here; tests/hosts/test_fleet.py has that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.run import find_program
from tests.collection import ROOT, collections

GATES = (
    "End | Stop where a host of an earlier batch is not proven",
    "Preflight | Refuse a canary that would prove nothing",
)
ACCEPT_GATES = (
    "End | Stop where nobody asks for it",
    "End | Leave a host alone that is not to be asked",
)
FLEET = ["n1", "n2", "n3", "n4", "n5", "n6"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playbook of the gates, a task that fails where it is told to, and a note of who came by."""
    root = tmp_path_factory.mktemp("rolling")
    site = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    play = with_gates(site[1], GATES)
    play["tasks"] += [
        {
            "name": "End | No wish",
            "ansible.builtin.meta": "end_host",
            "when": "gpu_stack is not defined",
        },
        # No modules: Ansible would pack and start one for each host and step.
        {
            "name": "note",
            "ansible.builtin.raw": "echo {{ inventory_hostname }} >> {{ trail }}",
            "register": "gpu_plan",
        },
        {
            "name": "proof",
            "ansible.builtin.fail": {"msg": "not proven"},
            "when": "inventory_hostname in (bad | default('')).split(',')",
        },
        {"name": "done", "ansible.builtin.raw": "echo +{{ inventory_hostname }} >> {{ trail }}"},
    ]  # fmt: skip
    (root / "site.yml").write_text(yaml.safe_dump([play, site[3]], sort_keys=False), "utf-8")
    accept = yaml.safe_load((ROOT / "playbooks" / "accept.yml").read_text("utf-8"))[0]
    play = with_gates(accept, ACCEPT_GATES)
    ask = "echo ask:{{ inventory_hostname }} >> {{ trail }}"
    play["tasks"] += [{"name": "ask", "ansible.builtin.raw": ask}]
    (root / "accept.yml").write_text(yaml.safe_dump([play], sort_keys=False), "utf-8")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {
        "all": {
            "vars": local,
            "hosts": {"web1": {}},
            "children": {
                "gpu": {
                    "hosts": {name: {} for name in FLEET},
                    "vars": {"gpu_stack": {"tensorflow": "2.9"}},
                }
            },
        }
    }
    (root / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
    collections(root / "collections")
    callbacks = "callbacks_enabled = provision.gpu.report"
    (root / "ansible.cfg").write_text(f"[defaults]\ncollections_path = collections\n{callbacks}\n")
    return root


def with_gates(stack: dict[str, Any], gates: tuple[str, ...]) -> dict[str, Any]:
    """The play with its own keywords, and of its tasks these."""
    tasks = {task["name"]: task for task in stack["tasks"]}
    kept = ("name", "hosts", "strategy", "serial", "gather_facts", "vars")
    play = {key: stack[key] for key in kept if key in stack}
    return {**play, "tasks": [tasks[name] for name in gates]}


def called(tree: Path, playbook: str, *arguments: str, **extra: Any) -> tuple[int, list[str], str]:
    """(exit code, the trail, what was said)."""
    trail = tree / "trail"
    trail.unlink(missing_ok=True)
    done = subprocess.run(
        [find_program(), "-i", "hosts.yml", playbook, "--forks", "1",
         "-e", json.dumps({"trail": str(trail)} | extra), *arguments],
        cwd=tree, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    steps = trail.read_text("utf-8").split() if trail.exists() else []
    return done.returncode, steps, done.stdout


def run(tree: Path, *arguments: str, **extra: Any) -> tuple[int, list[str], dict[str, Any], str]:
    """(exit code, the trail, the report, what was said)."""
    code, steps, output = called(tree, "site.yml", *arguments, **extra)
    report = json.loads((tree / "report" / "latest" / "report.json").read_text("utf-8"))
    return code, steps, report, output


def test_without_a_word_all_hosts_are_one_batch_and_a_bad_one_stops_no_other(tree: Path) -> None:
    code, steps, report, _ = run(tree, bad="n1")
    assert code == 2
    assert steps == [*FLEET, *(f"+{name}" for name in FLEET[1:])]
    assert "not_begun" not in report


def test_the_canary_comes_first_and_alone(tree: Path) -> None:
    code, steps, report, _ = run(tree, gpu_canary="n4")
    assert code == 0
    assert steps[:2] == ["n4", "+n4"]
    assert steps[2:7] == ["n1", "n2", "n3", "n5", "n6"]
    assert "not_begun" not in report


def test_after_a_bad_canary_nothing_is_begun_and_the_report_says_so(tree: Path) -> None:
    code, steps, report, output = run(tree, gpu_canary="n4", bad="n4")
    assert code == 2
    assert steps == ["n4"]
    assert report["not_begun"]["hosts"] == ["n1", "n2", "n3", "n5", "n6"]
    expected = (
        "Not begun, and untouched: n1, n2, n3, n5, n6; a batch before them is not proven (n4)"
    )
    assert report["not_begun"]["message"] == expected
    assert expected in output


def test_a_batch_that_has_begun_is_brought_to_its_end(tree: Path) -> None:
    code, steps, report, _ = run(tree, gpu_serial=[1, 3, 2], bad="n1")
    assert code == 2
    # web1 has no wish; it is a batch of its own that nothing happens to.
    assert steps == ["n1", "n2", "n3", "+n2", "+n3"]
    assert report["not_begun"]["hosts"] == ["n4", "n5", "n6"]


def test_no_gpu_of_a_host_that_was_not_begun_is_asked(tree: Path) -> None:
    """It is not even connected to, and the report still says that it was not begun."""
    code, steps, report, _ = run(tree, gpu_serial=[1, 3, 2], bad="n1", gpu_accept="quick")
    assert code == 2
    assert steps == ["n1", "n2", "n3", "+n2", "+n3", "ask:n2", "ask:n3"]
    assert report["not_begun"]["hosts"] == ["n4", "n5", "n6"]


def test_an_acceptance_alone_asks_every_host_that_has_a_wish(tree: Path) -> None:
    _, steps, _ = called(tree, "accept.yml")
    assert steps == [f"ask:{name}" for name in FLEET]


def test_a_canary_and_batches_of_a_size(tree: Path) -> None:
    _, steps, _, _ = run(tree, gpu_canary="n6", gpu_serial=2, bad="n3")
    assert steps == ["n6", "+n6", "n1", "+n1", "n2", "n3", "+n2"]


def test_a_canary_may_be_a_number(tree: Path) -> None:
    _, steps, _, _ = run(tree, gpu_canary=2)
    assert steps[:2] == ["n1", "+n1"]
    _, steps, _, _ = run(tree, gpu_canary="3", bad="n2")
    assert steps == ["n1", "n2", "+n1"]


@pytest.mark.parametrize("canary", ["n9", "web1", "gpu", "n1,n2", 0, "1", -1, ["n1"]])
def test_a_canary_that_would_prove_nothing_is_refused(tree: Path, canary: Any) -> None:
    """The first host of this inventory has no wish: one alone, it would prove nothing."""
    code, steps, _, output = run(tree, gpu_canary=canary)
    assert code != 0
    assert steps == []
    assert "it must name one host of this run" in output


def test_a_limit_that_leaves_the_canary_out_is_refused(tree: Path) -> None:
    code, steps, _, _ = run(tree, "--limit", "n2,n3", gpu_canary="n1")
    assert (code != 0, steps) == (True, [])


def test_a_plan_looks_at_all_batches(tree: Path) -> None:
    code, steps, _, _ = run(tree, "--check", gpu_canary="n4", bad="n4")
    assert (code, steps) == (2, [])
