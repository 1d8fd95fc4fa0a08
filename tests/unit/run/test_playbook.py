"""A real ansible-playbook with the real callback on a small tree: what it writes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from stub_tree import Tree, change, plan

from provision.cli.running import no_report
from provision.errors import InputError
from provision.run import Options, find_program, playbook, run_playbook
from tests import called, collection


def test_a_converged_host_runs_one_task_and_no_checks(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    outcome = run_playbook(tree.path)
    assert outcome.exit_code == 0
    assert tree.report()["hosts"]["gpu01"]["status"] == "converged"
    done = [e for e in tree.events() if e["event"] == "host_result" and e["status"] != "skipped"]
    assert [event["task"] for event in done] == ["look | See what is there"]
    assert not (tree.path / "report" / "latest" / "checks.json").exists()


def test_a_plan_is_drift_and_changes_nothing(tree: Tree) -> None:
    tree.answers("gpu01", plan(change("cuda")))
    outcome = run_playbook(tree.path, mode="plan")
    assert (outcome.ansible_exit, outcome.exit_code) == (0, 5)
    host = tree.report()["hosts"]["gpu01"]
    assert host["status"] == "drift"
    assert host["components"] == {}
    assert tree.report()["mode"] == "check"


@pytest.mark.parametrize("limit", ["gpu01,gpu09", "gpu01:!gpu09", "gpu01,rack*", "gpu01,gpu09[0]"])
def test_a_limit_of_which_a_part_matches_nothing_is_refused(tree: Tree, limit: str) -> None:
    """A nightly job with a renamed host in its --limit exited 0 without a word."""
    tree.answers("gpu01", plan())
    run_playbook(tree.path)
    before = tree.report_path.read_bytes()
    outcome = run_playbook(tree.path, Options(limit=limit))
    assert (outcome.ansible_exit, outcome.exit_code, outcome.report) == (5, 2, None)
    error = no_report(outcome, quiet=True)
    assert error.exit_code == 2
    assert error.got == limit.replace(":", ",").split(",")[1]
    assert tree.report_path.read_bytes() == before


def test_the_oldest_ansible_refuses_such_a_limit_in_the_same_words(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks its errors into lines, at blanks and hyphens."""
    oldest = str(collection.OLDEST / "ansible-playbook")
    monkeypatch.setattr(playbook, "find_program", lambda: oldest)
    limit = "gpu01,gpu-node-of-another-inventory.example.org,no_host_of_this_name_at_all"
    outcome = run_playbook(tree.path, Options(limit=limit))
    error = no_report(outcome, quiet=True)
    assert error.message.startswith("--limit names what the inventory does not have")
    assert error.got.split(", ") == limit.split(",")[1:]


@pytest.mark.parametrize("option", ["-K", "--ansible-output"])
def test_what_ansible_said_on_the_terminal_is_in_no_log_to_be_named(
    tree: Tree, option: str
) -> None:
    """The log was read although it had been removed, as the error of a reader said."""
    (tree.path / "stacks").mkdir()
    (tree.path / "stacks" / "gpu_lock.yml").write_bytes((tree.path / "lock.yml").read_bytes())
    (tree.path / "ansible.cfg").write_text("no section\n")
    with pytest.raises(InputError, match="before it reached a host") as caught:
        called.provision("apply", "--project", tree.path, option)
    error = caught.value
    assert (error.exit_code, error.where, error.got) == (2, "", "")
    assert list((tree.path / "report").iterdir()) == []


@pytest.mark.parametrize("limit", ["gpu01", "gpu", "all,!gpu01", "gpu0*", "~gpu\\d+", "gpu[0]"])
def test_a_limit_that_matches_is_taken(tree: Tree, limit: str) -> None:
    tree.answers("gpu01", plan())
    assert run_playbook(tree.path, Options(limit=limit)).ansible_exit != 5


def test_more_hosts_are_named_than_an_argument_has_room_for(tree: Tree) -> None:
    """`provision rollback` of a large fleet said that Ansible is not installed."""
    hosts = [f"gpu-node-{number:05}.a-long-name-of-a-cluster.example.org" for number in range(3000)]
    (tree.path / "lab" / "more.yml").write_text(
        json.dumps({"more": {"hosts": dict.fromkeys(hosts)}})
    )
    tree.answers("gpu01", plan())
    outcome = run_playbook(tree.path, Options(hosts=["gpu01", *hosts[:-1]], limit="gpu"))
    assert outcome.exit_code == 0
    assert list(tree.report()["hosts"]) == ["gpu01"]


def test_a_changed_host_is_timed_by_component_and_judged_by_the_checks(tree: Tree) -> None:
    """No TensorFlow is where this host has its own: the checks must find that out, per host."""
    root = tree.path / "tensorflow"
    tree.hosts("gpu01", tensorflow_root=str(root))
    tree.answers("gpu01", plan(change("cuda")))
    outcome = run_playbook(tree.path)
    host = tree.report()["hosts"]["gpu01"]
    assert host["status"] == "failed"
    assert outcome.exit_code == 6
    assert host["components"]["cuda"]["changed"] is True
    assert host["components"]["cuda"]["seconds"] > 0
    assert host["checks_summary"]["failed"] > 0
    texts = [check["diagnosis"] for check in host["checks"] if check["result"] == "failed"]
    assert f"there is no TensorFlow: {root}/current/bin/python does not exist" in texts
    (failed,) = [event for event in tree.events() if event.get("status") == "failed"]
    assert failed["task"].endswith("Tell what is not proven")


def test_verify_checks_a_host_with_nothing_to_change(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    outcome = run_playbook(tree.path, mode="verify")
    assert outcome.exit_code == 6
    assert tree.report()["mode"] == "verify"
    assert tree.report()["hosts"]["gpu01"]["checks"]


def test_blockers_stop_before_any_role_and_exit_with_4(tree: Tree) -> None:
    blockers = [{"id": "disk", "component": "cuda", "message": "2 GB short", "hint": "tidy up"}]
    tree.answers("gpu01", plan(change("cuda"), blockers=blockers))
    outcome = run_playbook(tree.path)
    host = tree.report()["hosts"]["gpu01"]
    assert outcome.exit_code == 4
    assert host["status"] == "blocked"
    assert host["components"] == {}


def test_one_failed_host_leaves_the_other_alone(tree: Tree) -> None:
    tree.hosts("gpu01", "gpu02", gpu_verify="never")
    tree.answers("gpu01", plan())
    tree.answers("gpu02", plan(change("cuda")))
    outcome = run_playbook(tree.path, Options(extra_vars=["cuda_command=false"]))
    hosts = tree.report()["hosts"]
    assert outcome.exit_code == 4
    assert hosts["gpu01"]["status"] == "converged"
    assert hosts["gpu02"]["status"] == "failed"
    assert hosts["gpu02"]["failure"]["task"] == "cuda : install | Install the packages"
    failed = [event for event in tree.events() if event.get("status") == "failed"]
    assert failed[0]["component"] == "cuda"
    assert failed[0]["phase"] == "apply"


def test_what_roles_share_is_the_work_of_the_one_that_includes_it(tree: Tree) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))
    outcome = run_playbook(tree.path, Options(extra_vars=["shared_command=false"]))
    host = tree.report()["hosts"]["gpu01"]
    assert outcome.exit_code == 4
    assert host["status"] == "failed"
    assert host["failure"]["task"] == "shared : cache | Remove what was downloaded"
    assert host["failure"]["phase"] == "apply"
    (failed,) = [event for event in tree.events() if event.get("status") == "failed"]
    assert failed["component"] == "cuda"


def test_an_unreachable_host_is_reported_and_exits_with_4(tree: Tree) -> None:
    tree.hosts("gpu01", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
    outcome = run_playbook(tree.path)
    assert outcome.exit_code == 4
    assert tree.report()["hosts"]["gpu01"]["status"] == "unreachable"


def test_nothing_secret_is_written(tree: Tree) -> None:
    """Neither a no_log result, nor a task's arguments, nor a variable."""
    tree.hosts("gpu01", gpu_verify="never", cuda_hidden="hunter2", other="swordfish")
    tree.answers("gpu01", plan(change("cuda")))
    run_playbook(tree.path, Options(extra_vars=["cuda_command=echo tr0ub4dor"]))
    for name in ("events.jsonl", "report.json"):
        text = (tree.path / "report" / "latest" / name).read_text(encoding="utf-8")
        assert "gpu01" in text
        for secret in ("hunter2", "swordfish", "tr0ub4dor"):
            assert secret not in text, f"{secret} in {name}"


def test_each_run_has_its_own_events_and_everybody_may_read_the_report(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    before = os.umask(0o077)
    try:
        for _ in range(2):
            run_playbook(tree.path)
    finally:
        os.umask(before)
    assert [event["event"] for event in tree.events()].count("run_start") == 1
    for name in ("events.jsonl", "report.json"):
        mode = (tree.path / "report" / "latest" / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o644, name


def test_plain_ansible_ends_with_a_table_and_ours_does_not(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    outcome = run_playbook(tree.path)
    assert "simulated GPU" not in outcome.log.read_text(encoding="utf-8")
    done = subprocess.run(
        [find_program(), "site.yml", "-i", "lab"],
        cwd=tree.path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "gpu01 (simulated GPU)  converged  nothing to change" in done.stdout
    # The callback itself begins a new file; `run_playbook` is not there to do it.
    assert [event["event"] for event in tree.events()].count("run_start") == 1


def test_missing_testinfra_is_reported_with_the_one_command_that_helps(
    tree: Tree, tmp_path: Path
) -> None:
    """A Python whose testinfra can't be imported: the run says how the proof can be had."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "testinfra.py").write_text("raise ImportError('not here')\n")
    tree.answers("gpu01", plan(change("cuda")))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(broken)
    try:
        outcome = run_playbook(tree.path)
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    assert outcome.exit_code == 0
    assert tree.report()["hosts"]["gpu01"]["status"] == "converged"
    log = outcome.log.read_text(encoding="utf-8")
    assert "-m pip install 'pytest-testinfra>=10.1' PyYAML" in log
    assert "--tags verify -e gpu_verify=always" in log
