"""The callback's record: results of a run in, the report out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils.record import Record
from ansible_collections.provision.gpu.plugins.plugin_utils.results import (
    MESSAGE_LIMIT,
    message_of,
    phase_of,
    will_be_rescued,
)
from ansible_collections.provision.gpu.plugins.plugin_utils.table import table
from stub_tree import LOCK, change, plan

GPU_LOCK = LOCK["gpu_lock"]
CHECKS_GOOD = {
    "finished": "2026-11-21T12:00:00.000Z",
    "hosts": {
        "gpu01": {
            "checks": [{"id": "a", "title": "A", "result": "passed"}],
            "summary": {"passed": 1, "failed": 0, "not_applicable": 0},
            "found": {"nvcc": "11.2", "cudnn": "8.1.0"},
        }
    },
}
CHECKS_BAD = {
    "finished": "2026-11-21T12:00:00.000Z",
    "hosts": {
        "gpu01": {
            "checks": [
                {
                    "id": "a",
                    "title": "A",
                    "result": "failed",
                    "diagnosis": "libcusolver.so.11 is missing",
                    "hint": "again",
                }
            ],
            "summary": {"passed": 0, "failed": 1, "not_applicable": 0},
            "found": {},
        }
    },
}


@pytest.fixture
def record() -> Any:
    return Record("run", 1000.0, GPU_LOCK, "0.1.0")


def report(record: Any, **more: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"previous": {}, "checks": {}, "failures": set()}
    made: dict[str, Any] = record.report(1012.5, **(options | more))
    return made


def test_a_host_without_changes_is_converged_and_keeps_its_last_proof(record: Any) -> None:
    record.looked("gpu01", plan())
    previous = {"proven": {"gpu01": {"time": "2026-11-20T12:00:00.000Z", "stack": "s1"}}}
    made = report(record, previous=previous)
    host = made["hosts"]["gpu01"]
    assert host["status"] == "converged"
    assert host["last_proven"] == "2026-11-20T12:00:00.000Z"
    assert host["wanted"] == {
        "nvidia_driver": "470.256.02",
        "cuda": "11.2.2",
        "tensorflow": "2.9.3",
        "python": "3.9",
    }
    assert host["found"] == {"cuda": "11.2.2"}
    assert made["lock_digest"] == "sha256:abc"
    assert made["seconds"] == 12.5


def test_what_the_stack_does_not_have_is_not_what_was_found() -> None:
    """CUDA of a former stack, where the host's TensorFlow brings its own."""
    stack = {k: v for k, v in GPU_LOCK["stacks"]["s1"].items() if k != "cuda"}
    record = Record("run", 1000.0, GPU_LOCK | {"stacks": {"s1": stack}}, "0.1.0")
    record.looked("gpu01", plan())
    host = report(record)["hosts"]["gpu01"]
    assert host["found"] == {}
    assert "cuda" not in host["wanted"]


def test_what_is_wished_away_is_not_what_is_wanted(record: Any) -> None:
    record.looked("gpu01", plan() | {"absent": ["cuda", "tensorflow"]})
    host = report(record)["hosts"]["gpu01"]
    assert host["absent"] == ["cuda", "tensorflow"]
    assert host["wanted"] == {"nvidia_driver": "470.256.02"}


def test_preflights_notices_are_reported_and_ansibles_warnings_are_not(record: Any) -> None:
    """A module's own warnings are bare text, which no reader of a report expects."""
    notice = {"id": "conda", "component": "tensorflow", "message": "conda first", "hint": ""}
    record.looked("gpu01", {**plan(), "notices": [notice], "warnings": ["Python is old"]})
    record.looked("gpu01", {**plan(), "notices": [], "warnings": ["Python is old"]})
    assert report(record)["hosts"]["gpu01"]["warnings"] == [notice]


def test_a_proof_of_another_stack_is_not_carried_over(record: Any) -> None:
    record.looked("gpu01", plan())
    previous = {"proven": {"gpu01": {"time": "2026-11-20T12:00:00.000Z", "stack": "older"}}}
    assert report(record, previous=previous)["hosts"]["gpu01"]["last_proven"] is None


def test_the_proof_of_a_host_outside_the_limit_is_kept_for_its_next_run(record: Any) -> None:
    record.looked("gpu01", plan())
    previous = {"proven": {"gpu02": {"time": "2026-11-20T12:00:00.000Z", "stack": "s1"}}}
    made = report(record, previous=previous)
    assert list(made["hosts"]) == ["gpu01"]
    assert made["proven"]["gpu02"]["time"] == "2026-11-20T12:00:00.000Z"


def test_a_host_that_changed_and_passed_every_check_is_proven(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.worked("gpu01", "cuda", 1.5, True)
    record.worked("gpu01", "cuda", 2.0, False)
    record.looked("gpu01", plan())
    host = report(record, checks=CHECKS_GOOD)["hosts"]["gpu01"]
    assert host["status"] == "proven"
    assert host["last_proven"] == CHECKS_GOOD["finished"]
    assert host["components"] == {"cuda": {"seconds": 3.5, "changed": True}}
    assert host["found"] == {"cuda": "11.2.2", "nvcc": "11.2", "cudnn": "8.1.0"}
    assert host["changes"][0]["item"] == "package"
    assert host["left"] == []


def test_a_host_that_changed_without_being_checked_is_converged(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.looked("gpu01", plan())
    assert report(record)["hosts"]["gpu01"]["status"] == "converged"


def test_a_failed_check_is_a_failed_host(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.looked("gpu01", plan())
    host = report(record, checks=CHECKS_BAD)["hosts"]["gpu01"]
    assert host["status"] == "failed"
    assert host["failure"]["phase"] == "verify"


def test_something_left_after_the_second_look_is_a_failed_host(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.looked("gpu01", plan(change("cuda", "libcusolver11")))
    host = report(record)["hosts"]["gpu01"]
    assert host["status"] == "failed"
    assert "cuda libcusolver11" in host["failure"]["message"]
    assert host["left"][0]["item"] == "libcusolver11"


def test_a_host_that_only_lacks_a_reboot_is_told_so(record: Any) -> None:
    record.looked("gpu01", plan(change("nvidia_driver", reboot=True)))
    record.looked("gpu01", plan(change("nvidia_driver", "running driver", reboot=True)))
    record.failed("gpu01", "Proof | Refuse to leave anything undone", "left", "proof")
    host = report(record, failures={"gpu01"})["hosts"]["gpu01"]
    assert host["status"] == "failed"
    assert "reboot the host, then run again" in host["failure"]["message"]


def test_changes_left_out_by_tags_are_drift(record: Any) -> None:
    chosen, other = change("cuda"), change("cudnn", selected=False)
    record.looked("gpu01", plan(chosen, other))
    record.looked("gpu01", plan(other))
    host = report(record)["hosts"]["gpu01"]
    assert host["status"] == "drift"
    assert host["not_selected"] == ["cudnn"]


def test_a_run_that_ends_before_the_second_look_is_a_failed_host(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    assert report(record)["hosts"]["gpu01"]["status"] == "failed"
    host = report(record, interrupted=True, failures=None)["hosts"]["gpu01"]
    assert host["failure"]["message"] == "untouched, nothing was changed yet"


def test_an_interrupted_run_says_what_state_each_host_is_in(record: Any) -> None:
    record.host("not-come-to")
    record.looked("not-begun", plan(change("cuda")))
    record.looked("in-cuda", plan(change("cuda")))
    record.host("in-cuda").at = "cuda"
    record.looked("with-dpkg", plan(change("cuda")))
    record.host("with-dpkg").at = "cuda"
    record.host("with-dpkg").finishing = "dpkg (pid 12)"
    record.looked("done", plan())
    hosts = report(record, interrupted=True, failures=None)["hosts"]
    assert {name: (host["failure"] or {}).get("message") for name, host in hosts.items()} == {
        "not-come-to": "untouched, it was not looked at",
        "not-begun": "untouched, nothing was changed yet",
        "in-cuda": "in the middle of cuda: run again to go on",
        "with-dpkg": "in the middle of cuda: run again to go on "
        "(dpkg (pid 12) is finishing there, and the next run waits for it)",
        "done": None,
    }
    assert hosts["done"]["status"] == "converged"
    assert hosts["in-cuda"]["failure"]["task"] == "interrupted"


def test_drift_names_what_is_left_and_not_what_was_done() -> None:
    record = Record("run", 1000.0, GPU_LOCK, None)
    chosen, other = change("cuda"), change("cudnn", selected=False)
    record.looked("gpu01", plan(chosen, other))
    record.looked("gpu01", plan(other))
    lines = table(report(record))
    assert "differs from the lock: cudnn" in lines[0]
    assert "cuda" not in lines[0]


def test_a_host_that_only_says_that_it_is_ubuntu_is_told_from_one() -> None:
    record = Record("run", 1000.0, GPU_LOCK, None)
    seen = plan()
    seen["platform"] = {"pretty": "Ubuntu 20.04.6 LTS", "userland": "Debian (bullseye)"}
    record.looked("gpu01", seen)
    assert "gpu01 (on Debian (bullseye))" in table(report(record))[0].replace(
        " (simulated GPU)", ""
    )


class Task:
    """As much of Ansible's task as the plugin asks."""

    def __init__(self, uuid: str, parent: Any = None) -> None:
        self._uuid, self._parent = uuid, parent


class Block(Task):
    def __init__(self, uuid: str, parent: Any, block: list[Any], rescue: list[Any]) -> None:
        super().__init__(uuid, parent)
        self.block, self.rescue = block, rescue


def test_a_failure_inside_a_block_with_a_rescue_is_known() -> None:
    inner = Task("include")
    outer = Block("b", None, [inner], [Task("r")])
    inner._parent = outer
    assert will_be_rescued(Task("t", inner)) is True
    assert will_be_rescued(Task("r", outer)) is False
    assert will_be_rescued(Task("t", Block("p", None, [Task("t")], []))) is False
    assert will_be_rescued(Task("t")) is False


def test_a_failure_in_preflight_is_a_blocked_host(record: Any) -> None:
    blockers = [{"id": "avx", "component": "tensorflow", "message": "no AVX", "hint": ""}]
    record.looked("gpu01", plan(change("tensorflow"), blockers=blockers))
    record.failed("gpu01", "preflight | Refuse", "no AVX", "preflight")
    host = report(record, failures={"gpu01"})["hosts"]["gpu01"]
    assert host["status"] == "blocked"
    assert host["blockers"] == blockers


def test_a_failure_in_a_role_is_a_failed_host_even_with_a_blocker(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda"), blockers=[{"id": "x", "message": "m"}]))
    record.worked("gpu01", "cuda", 1.0, False)
    record.failed("gpu01", "cuda : install", "no network", "apply")
    assert report(record, failures={"gpu01"})["hosts"]["gpu01"]["status"] == "failed"


def test_a_platform_without_a_row_is_blocked_though_nothing_would_change(record: Any) -> None:
    blockers = [{"id": "no-row", "component": "", "message": "no stack for ubuntu 16.04"}]
    record.looked("gpu01", plan(blockers=blockers, stack=None))
    host = report(record)["hosts"]["gpu01"]
    assert host["status"] == "blocked"
    assert "ubuntu 16.04" in host["failure"]["message"]


def test_a_rescued_failure_is_none(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.failed("gpu01", "cuda : first try", "no", "apply")
    record.looked("gpu01", plan())
    assert report(record, failures=set())["hosts"]["gpu01"]["status"] == "converged"


def test_an_unreachable_host_says_so(record: Any) -> None:
    record.failed("gpu01", "look | Look", "Permission denied", "look")
    record.host("gpu01").unreachable = True
    host = report(record, failures={"gpu01"})["hosts"]["gpu01"]
    assert host["status"] == "unreachable"
    assert host["failure"]["message"] == "Permission denied"


def test_check_mode_tells_drift_and_never_converges_anything() -> None:
    record = Record("check", 1000.0, GPU_LOCK, None)
    record.looked("gpu01", plan(change("cuda")))
    record.looked("gpu02", plan())
    hosts = report(record)["hosts"]
    assert [hosts[name]["status"] for name in ("gpu01", "gpu02")] == ["drift", "converged"]


def test_verify_proves_a_host_that_has_nothing_to_change() -> None:
    record = Record("verify", 1000.0, GPU_LOCK, None)
    record.looked("gpu01", plan())
    assert report(record, checks=CHECKS_GOOD)["hosts"]["gpu01"]["status"] == "proven"


def test_verify_does_not_prove_a_host_that_differs_from_its_lock() -> None:
    record = Record("verify", 1000.0, GPU_LOCK, None)
    record.looked("gpu01", plan(change("gpu_env", "/etc/environment", selected=False)))
    assert report(record, checks=CHECKS_GOOD)["hosts"]["gpu01"]["status"] == "drift"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"msg": "no such package"}, "no such package"),
        ({"msg": "rc 1", "stderr": "one\ntwo\n"}, "rc 1\none\ntwo"),
        ({"msg": "failed: https://user:pass@pypi.example/x"}, "failed: https://***@pypi.example/x"),
        ({"censored": "the output has been hidden", "msg": "s3cr3t"}, "hidden by no_log"),
        ({"_ansible_no_log": True, "msg": "s3cr3t"}, "hidden by no_log"),
        (
            {
                "msg": "One or more items failed",
                "results": [{"failed": False, "msg": "fine"}, {"failed": True, "msg": "bad"}],
            },
            "bad",
        ),
        ({}, "no message"),
    ],
)
def test_a_failure_says_why_and_nothing_secret(result: dict[str, Any], expected: str) -> None:
    assert message_of(result) == expected


def test_a_long_message_is_cut() -> None:
    assert len(message_of({"msg": "x" * 9000})) == MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("preflight | Refuse", "preflight"),
        ("cuda : proof | Look", "proof"),
        ("install | Packages", None),
        ("proof", None),
    ],
)
def test_a_phase_is_the_first_word_of_a_tasks_name(name: str, phase: str | None) -> None:
    assert phase_of(name) == phase


def test_the_plain_table_says_simulated_and_gives_every_diagnosis_a_line(record: Any) -> None:
    record.looked("gpu01", plan(change("cuda")))
    record.looked("gpu01", plan())
    bad = {"finished": "", "hosts": {"gpu01": dict(CHECKS_BAD["hosts"]["gpu01"])}}
    checks = bad["hosts"]["gpu01"]["checks"]
    bad["hosts"]["gpu01"]["checks"] = [*checks, {**checks[0], "diagnosis": "second"}]
    lines = table(report(record, checks=bad))
    assert lines[0].split("  ")[0] == "gpu01 (simulated GPU)"
    assert "libcusolver.so.11 is missing" in lines[0]
    assert lines[1].strip() == "second"


def test_a_roles_warning_is_reported_with_preflights(record: Any) -> None:
    """A source that apt can't use is no reason to stop, and a reason to say so."""
    notice = {"id": "conda", "component": "tensorflow", "message": "conda", "hint": ""}
    record.looked("gpu01", {**plan(change("cuda")), "notices": [notice]})
    for _again in range(2):
        record.warned("gpu01", "cuda", "apt cannot use /etc/apt/sources.list.d/lab.list:2")
    record.looked("gpu01", plan())
    warnings = report(record)["hosts"]["gpu01"]["warnings"]
    assert [reason["message"] for reason in warnings][-1:] == [
        "apt cannot use /etc/apt/sources.list.d/lab.list:2"
    ]
    assert len([entry for entry in warnings if entry["id"] == "role"]) == 1


def plugin_result(record: Any, play: str, status: str) -> list[str]:
    """The hosts of the report after one result of a task, in a play of this name."""
    from ansible_collections.provision.gpu.plugins.callback.report import CallbackModule

    plugin = CallbackModule()
    plugin._record = record
    plugin.v2_playbook_on_play_start(SimpleNamespace(get_name=lambda: play))
    task = SimpleNamespace(
        get_name=lambda: "End | Ask",
        action="ansible.builtin.fail",
        _uuid="1",
        _role=None,
        _parent=None,
    )
    host = SimpleNamespace(get_name=lambda: "cache1")
    result = SimpleNamespace(_host=host, _task=task, _result={"msg": "x"})
    plugin._result(result, status)
    return list(record.hosts)


def test_the_host_of_the_cache_is_in_the_report_only_where_it_failed(record: Any) -> None:
    before = list(record.hosts)
    assert plugin_result(record, "Artifact cache", "changed") == before
    assert plugin_result(record, "GPU stack", "skipped") == before
    assert plugin_result(record, "Artifact cache", "failed") == [*before, "cache1"]
